#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status Check(const OpView& view) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  const Shape& x = view.in(0).shape;
  if (x.rank() < 1 || x[x.rank() - 1] < 1)
    return view.Error("the last dimension of X has size 0, expected at least 1");
  if (!view.attr<bool>("causal")) return OkStatus();
  if (x.rank() < 2 || x[x.rank() - 1] < x[x.rank() - 2]) {
    return view.Error("attribute causal needs matrices [..., t, s] with t <= s");
  }
  return OkStatus();
}

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(Check(view));
  return InferAsFirst(view, outputs);
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (!dx.empty()) ctx.Append("softmax_grad", {{ctx.Out(0)}, {g}}, {{dx}}, ctx.op().attrs);
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(Check(view));
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "Out", 1, "Out@GRAD"));
  return InferAsFirst(view, outputs);
}

constexpr AttrList Attrs() {
  return {{"causal", false,
           "X is [..., t, s], and row i keeps its first i + 1 + s - t elements; the others are 0"}};
}

}  // namespace

constinit const OpDef kSoftmax = {
    .type = "softmax",
    .doc = "Out = exp(X) / sum of exp(X) over the last dimension.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kSoftmaxCpu,
    .inplace = {{0, 0}},
};

constinit const OpDef kSoftmaxGrad = {
    .type = "softmax_grad",
    .doc = "X@GRAD = Out (Out@GRAD - sum of Out Out@GRAD over the last dimension).",
    .inputs = {{"Out"}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kSoftmaxGradCpu,
    .inplace = {{0, 1}, {0, 0}},
};

}  // namespace tandem::ops
