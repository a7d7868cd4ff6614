#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status NeedLabels(const OpView& view) {
  if (view.in(1) == TensorDesc{DType::kI64, view.in(0).shape}) return OkStatus();
  return view.Error("input Label must be i64" + ToString(view.in(0).shape));
}

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view, 1));
  TD_RETURN_IF_ERROR(NeedLabels(view));
  outputs[0] = outputs[1] = view.in(0);
  return OkStatus();
}

void Grad(GradContext& ctx) {
  // output 0, Sigmoid, is an intermediate result without a gradient
  const std::string g = ctx.OutGrad(1);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (dx.empty()) return;
  ctx.Append("sigmoid_cross_entropy_grad", {{ctx.Out(0)}, {ctx.In(1)}, {g}}, {{dx}}, {});
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view, 1));
  TD_RETURN_IF_ERROR(NeedLabels(view));
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "Sigmoid", 2, "Loss@GRAD"));
  outputs[0] = view.in(0);
  return OkStatus();
}

}  // namespace

constinit const OpDef kSigmoidXent = {
    .type = "sigmoid_cross_entropy",
    .doc =
        "Sigmoid = 1 / (1 + exp(-Logits)); Loss = -log Sigmoid where Label is 1, -log(1 - Sigmoid) "
        "where it is 0, computed as max(x,0) - x label + log(1 + exp(-|x|)).",
    .inputs = {{"Logits"}, {"Label"}},
    .outputs = {{"Sigmoid"}, {"Loss"}},
    .infer = Infer,
    .grad = Grad,
    .cpu = &kSigmoidXentCpu,
};

constinit const OpDef kSigmoidXentGrad = {
    .type = "sigmoid_cross_entropy_grad",
    .doc = "Logits@GRAD = (Sigmoid - Label) Loss@GRAD.",
    .inputs = {{"Sigmoid"}, {"Label"}, {"Loss@GRAD"}},
    .outputs = {{"Logits@GRAD"}},
    .infer = InferGrad,
    .cpu = &kSigmoidXentGradCpu,
    .inplace = {{0, 0}, {0, 2}},
};

}  // namespace tandem::ops
