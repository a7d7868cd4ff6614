// Definition of buffered_momentum, the outer optimizer of decoupled DiLoCo on pservers. Sources:
// Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", AISTATS 2022 (the
// buffer); Douillard et al., "DiLoCo", 2023, arXiv 2311.08105 (the step).
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  if (view.attr<int64_t>("gradients") < 1) {
    return view.Error(
        absl::StrFormat("gradients is %d, expected at least 1", view.attr<int64_t>("gradients")));
  }
  return InferOptimizer(view, /*scalars=*/2, outputs);
}

}  // namespace

constinit const OpDef kBufferedMomentum = {
    .type = "buffered_momentum",
    .doc =
        "Makes a step with the mean of several gradients. SumOut = Sum + LearningRate * Grad; "
        "WeightOut = Weight + LearningRate, where LearningRate is the weight of the gradient; "
        "CountOut = Count + 1. When CountOut reaches `gradients`, g = SumOut / WeightOut, "
        "VelocityOut = mu * Velocity + g, ParamOut = Param - rate * VelocityOut, with use_nesterov "
        "Param - rate * (g + mu * VelocityOut), and SumOut, WeightOut and CountOut become 0. The "
        "mean is 0 if WeightOut is not above 0.",
    .inputs = {{"Param"}, {"Grad"}, {"Velocity"}, {"Sum"}, {"Weight"}, {"Count"}, {"LearningRate"}},
    .outputs = {{"ParamOut"}, {"VelocityOut"}, {"SumOut"}, {"WeightOut"}, {"CountOut"}},
    .attrs = {{"gradients", int64_t{1}, "number of gradients of a step"},
              {"rate", 0.7, "learning rate of a step"},
              {"mu", 0.9, "share of the velocity that stays"},
              {"use_nesterov", true, "look ahead: Sutskever et al., ICML 2013"}},
    .infer = Infer,
    .cpu = &kBufferedMomentumCpu,
    .inplace = {{0, 0}, {1, 2}, {2, 3}, {3, 4}, {4, 5}},
};

}  // namespace tandem::ops
