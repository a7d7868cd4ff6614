// Operators of smooth activations: sigmoid, tanh and gelu. Source of both forms of gelu: Hendrycks
// and Gimpel, "Gaussian Error Linear Units", 2016.
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

// Writes the gradient operator of sigmoid or tanh. The gradient is computed from the result.
void GradByOut(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (!dx.empty()) ctx.Append(ctx.op().type + "_grad", {{ctx.Out(0)}, {g}}, {{dx}}, {});
}

void GeluGrad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (!dx.empty()) ctx.Append("gelu_grad", {{ctx.In(0)}, {g}}, {{dx}}, ctx.op().attrs);
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedSame(view, 0, view.op().type == "gelu_grad" ? "X" : "Out", 1, "Out@GRAD"));
  return InferAnyFloat(view, outputs);
}

constexpr AttrList GeluAttrs() {
  return {{"approximate", false,
           "true: X (1 + tanh(sqrt(2 / pi) (X + 0.044715 X^3))) / 2, false: by erf"}};
}

}  // namespace

constinit const OpDef kSigmoid = {
    .type = "sigmoid",
    .doc = "Out = 1 / (1 + exp(-X)).",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .infer = InferAnyFloat,
    .grad = GradByOut,
    .cpu = &kSigmoidCpu,
    .inplace = {{0, 0}},
    .elementwise = true,
};

constinit const OpDef kSigmoidGrad = {
    .type = "sigmoid_grad",
    .doc = "X@GRAD = Out@GRAD Out (1 - Out).",
    .inputs = {{"Out"}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .infer = InferGrad,
    .cpu = &kSigmoidGradCpu,
    .inplace = {{0, 1}, {0, 0}},
    .elementwise = true,
};

constinit const OpDef kTanh = {
    .type = "tanh",
    .doc = "Out = tanh(X).",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .infer = InferAnyFloat,
    .grad = GradByOut,
    .cpu = &kTanhCpu,
    .inplace = {{0, 0}},
    .elementwise = true,
};

constinit const OpDef kTanhGrad = {
    .type = "tanh_grad",
    .doc = "X@GRAD = Out@GRAD (1 - Out^2).",
    .inputs = {{"Out"}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .infer = InferGrad,
    .cpu = &kTanhGradCpu,
    .inplace = {{0, 1}, {0, 0}},
    .elementwise = true,
};

constinit const OpDef kGelu = {
    .type = "gelu",
    .doc = "Out = X P(N <= X), N standard normal.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = GeluAttrs(),
    .infer = InferAnyFloat,
    .grad = GeluGrad,
    .cpu = &kGeluCpu,
    .inplace = {{0, 0}},
    .elementwise = true,
};

constinit const OpDef kGeluGrad = {
    .type = "gelu_grad",
    .doc = "Gradient of gelu.",
    .inputs = {{"X"}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .attrs = GeluAttrs(),
    .infer = InferGrad,
    .cpu = &kGeluGradCpu,
    .inplace = {{0, 1}, {0, 0}},
    .elementwise = true,
};

}  // namespace tandem::ops
