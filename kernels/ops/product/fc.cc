#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

// Bias and its gradient are always f32.
Status CheckProduct(const OpView& view) {
  const bool grad = view.op().type.ends_with("_grad");
  TD_RETURN_IF_ERROR(grad ? NeedFloats(view, {0, 1, 2}) : NeedFloats(view, {0, 1}));
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "Input", 2));
  TD_RETURN_IF_ERROR(NeedRank(view, 1, "W", 2));
  const Shape &x = view.in(0).shape, &w = view.in(1).shape;
  if (x[1] == w[0]) return OkStatus();
  return view.Error(absl::StrFormat("the inner dimensions %d and %d differ", x[1], w[0]));
}

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(CheckProduct(view));
  const Shape &x = view.in(0).shape, &w = view.in(1).shape;
  if (view.has_in(2) && view.in(2).shape != Shape{w[1]}) {
    return view.Error(absl::StrFormat("input Bias must have the shape [%d]", w[1]));
  }
  outputs[0] = {view.in(0).dtype, {x[0], w[1]}};
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  if (g.empty()) return;
  const std::string dx = ctx.InGrad(0), dw = ctx.InGrad(1);
  const std::string db = ctx.In(2).empty() ? "" : ctx.InGrad(2);
  if (dx.empty() && dw.empty() && db.empty()) return;
  ctx.Append("fc_grad", {{ctx.In(0)}, {ctx.In(1)}, {g}}, {{dx}, {dw}, {db}}, {});
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(CheckProduct(view));
  const Shape &x = view.in(0).shape, &w = view.in(1).shape;
  if (view.in(2).shape != Shape{x[0], w[1]}) {
    return view.Error(absl::StrFormat("input Out@GRAD must have the shape [%d,%d]", x[0], w[1]));
  }
  outputs[0] = view.in(0);
  outputs[1] = view.in(1);
  outputs[2] = {DType::kF32, {w[1]}};
  return OkStatus();
}

double Flops(const OpView& view) {
  return 2.0 * static_cast<double>(view.in(0).shape.numel() * view.in(1).shape[1]);
}

// The input gradient and the weight gradient each need as many operations as the forward pass.
double FlopsGrad(const OpView& view) { return (view.has_out(0) + view.has_out(1)) * Flops(view); }

}  // namespace

constinit const OpDef kFc = {
    .type = "fc",
    .doc = "Out = Input W + Bias: Input [b,k], W [k,n], Bias [n].",
    .inputs = {{"Input"}, {"W"}, {"Bias", Arity::kOptional}},
    .outputs = {{"Out"}},
    .infer = Infer,
    .grad = Grad,
    .flops = Flops,
    .cpu = &kFcCpu,
};

constinit const OpDef kFcGrad = {
    .type = "fc_grad",
    .doc = "Gradients of fc.",
    .inputs = {{"Input"}, {"W"}, {"Out@GRAD"}},
    .outputs = {{"Input@GRAD", Arity::kOptional},
                {"W@GRAD", Arity::kOptional},
                {"Bias@GRAD", Arity::kOptional}},
    .infer = InferGrad,
    .flops = FlopsGrad,
    .cpu = &kFcGradCpu,
};

}  // namespace tandem::ops
