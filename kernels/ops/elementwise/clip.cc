// Operators that clip values and norms. Source of clipping by norm and by global norm: Pascanu,
// Mikolov and Bengio, "On the difficulty of training recurrent neural networks", ICML 2013,
// algorithm 1.
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status InferClip(const OpView& view, std::span<TensorDesc> outputs) {
  const double min = view.attr<double>("min"), max = view.attr<double>("max");
  if (!(min <= max)) return view.Error(absl::StrFormat("min=%g is above max=%g", min, max));
  return InferAsFirst(view, outputs);
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (!dx.empty()) ctx.Append("clip_grad", {{ctx.In(0)}, {g}}, {{dx}}, ctx.op().attrs);
}

Status InferClipGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "X", 1, "Out@GRAD"));
  return InferAsFirst(view, outputs);
}

Status NeedNorm(const OpView& view) {
  const double norm = view.attr<double>("max_norm");
  if (norm > 0) return OkStatus();
  return view.Error(absl::StrFormat("attribute max_norm=%g must be above 0", norm));
}

Status InferByNorm(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedNorm(view));
  return InferAsFirst(view, outputs);
}

Status InferByGlobalNorm(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedNorm(view));
  TD_RETURN_IF_ERROR(NeedF32(view));
  if (view.in_count() == 0 || !view.has_in(0))
    return view.Error("input slot X is empty, expected at least one variable");
  if (outputs.size() != view.in_count())
    return view.Error("the number of outputs Out must equal the number of inputs X");
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = view.in(i);
  return OkStatus();
}

constexpr AttrList Limits() {
  return {{"min", -1.0, "smallest value"}, {"max", 1.0, "largest value"}};
}
constexpr AttrList Norm() { return {{"max_norm", 1.0, "largest 2-norm"}}; }

}  // namespace

constinit const OpDef kClip = {
    .type = "clip",
    .doc = "Out = X within [min, max].",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = Limits(),
    .infer = InferClip,
    .grad = Grad,
    .cpu = &kClipCpu,
    .inplace = {{0, 0}},
};

constinit const OpDef kClipGrad = {
    .type = "clip_grad",
    .doc = "X@GRAD = Out@GRAD where min <= X <= max, else 0.",
    .inputs = {{"X"}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .attrs = Limits(),
    .infer = InferClipGrad,
    .cpu = &kClipGradCpu,
    .inplace = {{0, 1}},
};

constinit const OpDef kClipByNorm = {
    .type = "clip_by_norm",
    .doc = "Out = X max_norm / |X| where the 2-norm |X| is above max_norm, else X.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = Norm(),
    .infer = InferByNorm,
    .cpu = &kClipByNormCpu,
    .inplace = {{0, 0}},
};

constinit const OpDef kClipByGlobalNorm = {
    .type = "clip_by_global_norm",
    .doc =
        "Out[i] = X[i] max_norm / n where n, the 2-norm of all X together, is above max_norm, else "
        "X[i].",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out", Arity::kMany}},
    .attrs = Norm(),
    .infer = InferByGlobalNorm,
    .cpu = &kClipByGlobalNormCpu,
};

}  // namespace tandem::ops
