#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view, 1));
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "Logits", 2));
  TD_RETURN_IF_ERROR(NeedLabel(view, 1));
  if (view.in(0).shape[1] < 1) return view.Error("Logits has 0 classes, expected at least 1");
  outputs[0] = view.in(0);
  outputs[1] = {DType::kF32, {view.in(0).shape[0], 1}};
  return OkStatus();
}

void Grad(GradContext& ctx) {
  // output 0, Softmax, is an intermediate result without a gradient
  const std::string g = ctx.OutGrad(1);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (dx.empty()) return;
  ctx.Append("softmax_with_cross_entropy_grad", {{ctx.Out(0)}, {ctx.In(1)}, {g}}, {{dx}},
             ctx.op().attrs);
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view, 1));
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "Softmax", 2));
  TD_RETURN_IF_ERROR(NeedLabel(view, 1));
  const Shape loss{view.in(0).shape[0], 1};
  if (view.in(2).shape != loss) {
    return view.Error("input Loss@GRAD must have the shape " + ToString(loss));
  }
  outputs[0] = view.in(0);
  return OkStatus();
}

constexpr AttrList Attrs() {
  return {{"ignore_index", int64_t{-100}, "rows with this label have loss and gradient 0"}};
}

}  // namespace

constinit const OpDef kSoftmaxXent = {
    .type = "softmax_with_cross_entropy",
    .doc = "Softmax of each row of Logits [b,c] and Loss = -log Softmax[label] [b,1].",
    .inputs = {{"Logits"}, {"Label"}},
    .outputs = {{"Softmax"}, {"Loss"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kSoftmaxXentCpu,
};

constinit const OpDef kSoftmaxXentGrad = {
    .type = "softmax_with_cross_entropy_grad",
    .doc = "Logits@GRAD = (Softmax - one_hot(Label)) Loss@GRAD.",
    .inputs = {{"Softmax"}, {"Label"}, {"Loss@GRAD"}},
    .outputs = {{"Logits@GRAD"}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kSoftmaxXentGradCpu,
    .inplace = {{0, 0}},
};

}  // namespace tandem::ops
