#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  return InferOptimizer(view, /*scalars=*/0, outputs);
}

}  // namespace

constinit const OpDef kMomentum = {
    .type = "momentum",
    .doc =
        "VelocityOut = mu * Velocity + Grad; ParamOut = Param - LearningRate * VelocityOut, with "
        "use_nesterov Param - LearningRate * (Grad + mu * VelocityOut).",
    .inputs = {{"Param"}, {"Grad"}, {"Velocity"}, {"LearningRate"}, {"Rows", Arity::kOptional}},
    .outputs = {{"ParamOut"}, {"VelocityOut"}},
    .attrs = {{"mu", 0.9, "share of the velocity that stays"},
              {"use_nesterov", false, "look ahead: Sutskever et al., ICML 2013"},
              LazyModeAttr()},
    .infer = Infer,
    .cpu = &kMomentumCpu,
    .inplace = {{0, 0}, {1, 2}},
    .elementwise = true,
};

}  // namespace tandem::ops
