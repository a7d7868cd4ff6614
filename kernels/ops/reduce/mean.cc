#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  if (view.in(0).shape.numel() == 0) return view.Error("X has 0 elements, expected at least 1");
  outputs[0] = {DType::kF32, {1}};
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (!dx.empty()) ctx.Append("mean_grad", {{ctx.In(0)}, {g}}, {{dx}}, {});
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedOne(view, 1, "Out@GRAD"));
  return InferAsFirst(view, outputs);
}

}  // namespace

constinit const OpDef kMean = {
    .type = "mean",
    .doc = "Mean of all elements of X, [1]. Added up in f64.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .infer = Infer,
    .grad = Grad,
    .cpu = &kMeanCpu,
};

constinit const OpDef kMeanGrad = {
    .type = "mean_grad",
    .doc = "X@GRAD[i] = Out@GRAD / elements of X. Of X the shape alone is used.",
    .inputs = {{"X", Arity::kOne, true}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .infer = InferGrad,
    .cpu = &kMeanGradCpu,
};

}  // namespace tandem::ops
