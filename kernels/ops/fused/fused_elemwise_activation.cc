// Definition of fused_elemwise_activation, Paddle's operator (fused_elemwise_activation_op.cc). The
// attribute `functors` names the outer function first.
#include "kernels/ops/fused/fused_elemwise_activation.h"

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

struct Row {
  const char* activation;
  FusedAct act;
};
constexpr Row kRows[] = {{"relu", FusedAct::kRelu}, {"scale", FusedAct::kScale}};

constexpr AttrList Attrs() {
  return {{"functors", std::string_view("relu,elementwise_add"),
           "relu,elementwise_add: relu(X + Y); elementwise_add,relu: X + relu(Y); the same with "
           "scale"},
          {"axis", int64_t{-1}, "dimension of X that meets Y's first; -1: the last ones meet"},
          {"scale", 1.0, "factor of scale"}};
}

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(FusedAddOf(view).status());
  TD_RETURN_IF_ERROR(BroadcastShapeOf(view).status());
  outputs[0] = view.in(0);
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  if (g.empty()) return;
  const std::string dx = ctx.InGrad(0), dy = ctx.InGrad(1);
  if (dx.empty() && dy.empty()) return;
  ctx.Append("fused_elemwise_activation_grad", {{ctx.Out(0)}, {ctx.In(1)}, {g}}, {{dx}, {dy}},
             ctx.op().attrs);
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(FusedAddOf(view).status());
  TD_RETURN_IF_ERROR(BroadcastShapeOf(view).status());
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "Out", 2, "Out@GRAD"));
  outputs[0] = view.in(0);
  outputs[1] = view.in(1);
  return OkStatus();
}

}  // namespace

std::string FunctorsOf(std::string_view activation, bool act_first) {
  for (const Row& row : kRows) {
    if (activation != row.activation) continue;
    const std::string name = row.activation;
    return act_first ? "elementwise_add," + name : name + ",elementwise_add";
  }
  return "";
}

StatusOr<FusedAdd> FusedAddOf(const OpView& view) {
  const auto functors = view.attr<std::string>("functors");
  for (const Row& row : kRows) {
    for (const bool act_first : {false, true}) {
      if (functors != FunctorsOf(row.activation, act_first)) continue;
      return FusedAdd{row.act, act_first, static_cast<float>(view.attr<double>("scale"))};
    }
  }
  return view.Error(absl::StrFormat("attribute functors is \"%s\", which is unknown", functors));
}

constinit const OpDef kFusedElemwiseActivation = {
    .type = "fused_elemwise_activation",
    .doc = "Addition and an activation in one: act(X + Y) or X + act(Y); Y as in elementwise_add.",
    .inputs = {{"X"}, {"Y"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kFusedElemwiseActivationCpu,
    .inplace = {{0, 0}},
};

constinit const OpDef kFusedElemwiseActivationGrad = {
    .type = "fused_elemwise_activation_grad",
    .doc = "Gradients of fused_elemwise_activation.",
    .inputs = {{"Out"}, {"Y"}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD", Arity::kOptional}, {"Y@GRAD", Arity::kOptional}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kFusedElemwiseActivationGradCpu,
    .inplace = {{0, 2}},
};

}  // namespace tandem::ops
