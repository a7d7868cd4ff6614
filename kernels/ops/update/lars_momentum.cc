// Definition of lars_momentum. Source: You, Gitman and Ginsburg, "Large Batch Training of
// Convolutional Networks", 2017 (arXiv:1708.03888), algorithm 1. The update needs the norms of
// whole parameters.
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  return InferOptimizer(view, /*scalars=*/0, outputs);
}

}  // namespace

constinit const OpDef kLarsMomentum = {
    .type = "lars_momentum",
    .doc =
        "local = LearningRate lars_coeff |Param| / (|Grad| + weight_decay |Param| + epsilon), "
        "LearningRate where a norm or weight_decay is 0; VelocityOut = mu Velocity + local (Grad + "
        "weight_decay Param); ParamOut = Param - VelocityOut. Norms are those of the whole "
        "tensors.",
    .inputs = {{"Param"}, {"Grad"}, {"Velocity"}, {"LearningRate"}},
    .outputs = {{"ParamOut"}, {"VelocityOut"}},
    .attrs = {{"mu", 0.9, "share of the velocity that stays"},
              {"lars_coeff", 0.001, "trust in a layer"},
              {"weight_decay", 0.0005, "weight decay"},
              {"epsilon", 0.0, "keeps the division finite"}},
    .infer = Infer,
    .cpu = &kLarsMomentumCpu,
    .inplace = {{0, 0}, {1, 2}},
};

}  // namespace tandem::ops
