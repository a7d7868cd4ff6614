#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  if (view.in_count() == 0 || !view.has_in(0))
    return view.Error("input slot X is empty, expected at least one variable");
  for (size_t i = 1; i < view.in_count(); ++i) {
    if (!view.has_in(i) || view.in(i) != view.in(0))
      return view.Error("all inputs X must have the same type and shape");
  }
  return InferAnyFloat(view, outputs);
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  if (g.empty()) return;
  for (size_t i = 0; i < ctx.op().inputs[0].size(); ++i) {
    const std::string dx = ctx.InGrad(0, i);
    if (!dx.empty()) ctx.Append("scale", {{g}}, {{dx}}, {});
  }
}

}  // namespace

constinit const OpDef kSum = {
    .type = "sum",
    .doc = "Out = X[0] + X[1] + ..., added in this order.",
    .inputs = {{"X", Arity::kMany}},
    .outputs = {{"Out"}},
    .infer = Infer,
    .grad = Grad,
    .cpu = &kSumCpu,
    .inplace = {{0, 0}},
    .elementwise = true,
};

}  // namespace tandem::ops
