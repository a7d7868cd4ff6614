#include "kernels/ops/reduce/reduce.h"

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {

StatusOr<Reduction> ReductionOf(const OpView& view) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  const Shape& x = view.in(0).shape;
  const auto dims = view.attr<std::vector<int64_t>>("dim");
  Reduction r;
  for (const int64_t dim : dims) {
    const int64_t d = dim < 0 ? dim + x.rank() : dim;
    if (d < 0 || d >= x.rank() || r.reduced[static_cast<size_t>(d)]) {
      return view.Error(absl::StrFormat("dim: %d is out of range or occurs twice", dim));
    }
    r.reduced[static_cast<size_t>(d)] = true;
  }
  if (dims.empty()) std::fill_n(r.reduced.begin(), x.rank(), true);
  std::vector<int64_t> kept;
  int runs = 0;
  bool before = false;
  for (int d = 0; d < x.rank(); ++d) {
    const bool reduced = r.reduced[static_cast<size_t>(d)];
    runs += reduced && !before ? 1 : 0;
    before = reduced;
    (reduced ? r.len : runs == 0 ? r.outer : r.inner) *= x[d];
    if (!reduced || view.attr<bool>("keep_dim")) kept.push_back(reduced ? 1 : x[d]);
  }
  if (r.len == 0) return view.Error("X has no elements to reduce");
  if (kept.empty()) kept = {1};
  r.out = Shape(kept);
  r.neighbours = runs <= 1;
  return r;
}

namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const Reduction r, ReductionOf(view));
  outputs[0] = {DType::kF32, r.out};
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (dx.empty()) return;
  std::vector<std::vector<std::string>> inputs = {{ctx.In(0)}, {g}};
  if (ctx.op().type == "reduce_max") inputs.push_back({ctx.Out(0)});
  ctx.Append(ctx.op().type + "_grad", inputs, {{dx}}, ctx.op().attrs);
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const Reduction r, ReductionOf(view));
  for (size_t i = 1; i < view.in_count(); ++i) {
    if (view.in(i).shape == r.out) continue;
    return view.Error(
        absl::StrFormat("%s must have the shape %s", i == 1 ? "Out@GRAD" : "Out", ToString(r.out)));
  }
  outputs[0] = view.in(0);
  return OkStatus();
}

constexpr AttrList Attrs() {
  return {
      {"dim", std::span<const int64_t>(),
       "dimensions; negative ones count from the last, none: all"},
      {"keep_dim", false, "keep them with one element each; else they are gone, [1] if all are"}};
}

}  // namespace

constinit const OpDef kReduceSum = {
    .type = "reduce_sum",
    .doc = "Sum over dimensions of X.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kReduceSumCpu,
};

constinit const OpDef kReduceSumGrad = {
    .type = "reduce_sum_grad",
    .doc = "Out@GRAD repeated over the dimensions. Of X the shape alone is used.",
    .inputs = {{"X", Arity::kOne, true}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kReduceSumGradCpu,
};

constinit const OpDef kReduceMean = {
    .type = "reduce_mean",
    .doc = "Mean over dimensions of X.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kReduceMeanCpu,
};

constinit const OpDef kReduceMeanGrad = {
    .type = "reduce_mean_grad",
    .doc = "Out@GRAD / their elements, repeated over the dimensions. Of X the shape alone is used.",
    .inputs = {{"X", Arity::kOne, true}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kReduceMeanGradCpu,
};

constinit const OpDef kReduceMax = {
    .type = "reduce_max",
    .doc = "The largest over dimensions of X.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kReduceMaxCpu,
};

constinit const OpDef kReduceMaxGrad = {
    .type = "reduce_max_grad",
    .doc = "Out@GRAD where X is Out (each of several largest gets it), else 0.",
    .inputs = {{"X"}, {"Out@GRAD"}, {"Out"}},
    .outputs = {{"X@GRAD"}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kReduceMaxGradCpu,
};

}  // namespace tandem::ops
