#include "kernels/ops/rows/sequence_pool.h"

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {

StatusOr<SequencePool> SequencePoolOf(const OpView& view) {
  static constexpr std::pair<const char*, PoolType> kTypes[] = {
      {"sum", PoolType::kSum}, {"average", PoolType::kAverage}, {"sqrt", PoolType::kSqrt},
      {"max", PoolType::kMax}, {"first", PoolType::kFirst},     {"last", PoolType::kLast},
  };
  TD_RETURN_IF_ERROR(NeedF32(view, 1));
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "X", 3));
  const Shape& x = view.in(0).shape;
  if (view.has_in(1) && view.in(1) != TensorDesc{DType::kI64, {x[0]}}) {
    return view.Error(absl::StrFormat("input Lengths must be i64[%d]", x[0]));
  }
  const auto name = view.attr<std::string>("pooltype");
  for (const auto& [type, value] : kTypes) {
    if (name == type) return SequencePool{value, x[0], x[1], x[2]};
  }
  return view.Error(absl::StrFormat(
      "attribute pooltype is \"%s\", expected sum, average, sqrt, max, first or last", name));
}

namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const SequencePool s, SequencePoolOf(view));
  outputs[0] = {DType::kF32, {s.batch, s.dim}};
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (dx.empty()) return;
  ctx.Append("sequence_pool_grad", {{ctx.In(0)}, {ctx.In(1)}, {ctx.Out(0)}, {g}}, {{dx}},
             ctx.op().attrs);
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const SequencePool s, SequencePoolOf(view));
  if (view.in(2).shape != Shape{s.batch, s.dim} || view.in(3).shape != view.in(2).shape) {
    return view.Error("inputs Out and Out@GRAD must have the shape " +
                      ToString(Shape{s.batch, s.dim}));
  }
  outputs[0] = view.in(0);
  return OkStatus();
}

constexpr AttrList Attrs() {
  return {{"pooltype", std::string_view("sum"),
           "sum, average, sqrt (sum / sqrt(length)), max, first or last"}};
}

}  // namespace

constinit const OpDef kSequencePool = {
    .type = "sequence_pool",
    .doc =
        "Out [b,d]: each sequence of X [b,t,d] as one row, of its first Lengths[i] steps (all t "
        "without Lengths, i64 [b]). An empty sequence gives zeros.",
    .inputs = {{"X"}, {"Lengths", Arity::kOptional}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kSequencePoolCpu,
};

constinit const OpDef kSequencePoolGrad = {
    .type = "sequence_pool_grad",
    .doc = "Gradient of sequence_pool; of equal largest values the first has it.",
    .inputs = {{"X"}, {"Lengths", Arity::kOptional}, {"Out"}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kSequencePoolGradCpu,
};

}  // namespace tandem::ops
