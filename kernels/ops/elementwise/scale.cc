#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (dx.empty()) return;
  const auto it = ctx.op().attrs.find("scale");
  const Attr scale = it == ctx.op().attrs.end() ? Attr(1.0) : it->second;
  ctx.Append("scale", {{g}}, {{dx}}, {{"scale", scale}});
}

}  // namespace

constinit const OpDef kScale = {
    .type = "scale",
    .doc = "Out = scale * X + bias.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = {{"scale", 1.0, "factor"}, {"bias", 0.0, "added after the multiplication"}},
    .infer = InferAnyFloat,
    .grad = Grad,
    .cpu = &kScaleCpu,
    .inplace = {{0, 0}},
    .elementwise = true,
};

}  // namespace tandem::ops
