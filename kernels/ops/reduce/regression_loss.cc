// Regression losses, one value per element: square_error_cost, huber_loss and l1_loss.
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

constexpr AttrList Delta() { return {{"delta", 1.0, "error from which the loss is linear"}}; }

Status CheckDelta(const OpView& view) {
  const double delta = view.attr<double>("delta");
  if (delta > 0) return OkStatus();
  return view.Error(absl::StrFormat("attribute delta=%g must be above 0", delta));
}

Status InferLoss(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "X", 1, "Label"));
  return InferAsFirst(view, outputs);
}

Status InferLossGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(InferLoss(view, outputs));
  return NeedSame(view, 0, "X", 2, "Out@GRAD");
}

template <Status (*InferAll)(const OpView&, std::span<TensorDesc>)>
Status InferHuber(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(CheckDelta(view));
  return InferAll(view, outputs);
}

// Label has no gradient.
void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (dx.empty()) return;
  ctx.Append(ctx.op().type + "_grad", {{ctx.In(0)}, {ctx.In(1)}, {g}}, {{dx}}, ctx.op().attrs);
}

}  // namespace

constinit const OpDef kSquareErrorCost = {
    .type = "square_error_cost",
    .doc = "Out = (X - Label)^2. Label has no gradient.",
    .inputs = {{"X"}, {"Label"}},
    .outputs = {{"Out"}},
    .infer = InferLoss,
    .grad = Grad,
    .cpu = &kSquareErrorCostCpu,
    .inplace = {{0, 0}},
};

constinit const OpDef kSquareErrorCostGrad = {
    .type = "square_error_cost_grad",
    .doc = "X@GRAD = 2 (X - Label) Out@GRAD.",
    .inputs = {{"X"}, {"Label"}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .infer = InferLossGrad,
    .cpu = &kSquareErrorCostGradCpu,
    .inplace = {{0, 0}, {0, 2}},
};

constinit const OpDef kHuberLoss = {
    .type = "huber_loss",
    .doc =
        "With d = |X - Label|: Out = d^2 / 2 where d <= delta, else delta (d - delta / 2). Label "
        "has no gradient.",
    .inputs = {{"X"}, {"Label"}},
    .outputs = {{"Out"}},
    .attrs = Delta(),
    .infer = InferHuber<InferLoss>,
    .grad = Grad,
    .cpu = &kHuberLossCpu,
    .inplace = {{0, 0}},
};

constinit const OpDef kHuberLossGrad = {
    .type = "huber_loss_grad",
    .doc = "X@GRAD = Out@GRAD times X - Label within [-delta, delta].",
    .inputs = {{"X"}, {"Label"}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .attrs = Delta(),
    .infer = InferHuber<InferLossGrad>,
    .cpu = &kHuberLossGradCpu,
    .inplace = {{0, 0}, {0, 2}},
};

constinit const OpDef kL1Loss = {
    .type = "l1_loss",
    .doc = "Out = |X - Label|. Label has no gradient.",
    .inputs = {{"X"}, {"Label"}},
    .outputs = {{"Out"}},
    .infer = InferLoss,
    .grad = Grad,
    .cpu = &kL1LossCpu,
    .inplace = {{0, 0}},
};

constinit const OpDef kL1LossGrad = {
    .type = "l1_loss_grad",
    .doc = "X@GRAD = Out@GRAD times the sign of X - Label (0 where they are equal).",
    .inputs = {{"X"}, {"Label"}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .infer = InferLossGrad,
    .cpu = &kL1LossGradCpu,
    .inplace = {{0, 0}, {0, 2}},
};

}  // namespace tandem::ops
