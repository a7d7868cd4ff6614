#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (!dx.empty()) ctx.Append("relu_grad", {{ctx.Out(0)}, {g}}, {{dx}}, {});
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "Out", 1, "Out@GRAD"));
  return InferAnyFloat(view, outputs);
}

}  // namespace

constinit const OpDef kRelu = {
    .type = "relu",
    .doc = "Out = max(X, 0); NaN stays NaN.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .infer = InferAnyFloat,
    .grad = Grad,
    .cpu = &kReluCpu,
    .inplace = {{0, 0}},
    .elementwise = true,
};

constinit const OpDef kReluGrad = {
    .type = "relu_grad",
    .doc = "X@GRAD = Out@GRAD where Out > 0, else 0.",
    .inputs = {{"Out"}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .infer = InferGrad,
    .cpu = &kReluGradCpu,
    .inplace = {{0, 1}, {0, 0}},
    .elementwise = true,
};

}  // namespace tandem::ops
