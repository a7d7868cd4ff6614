// Definition of lamb. Source: You et al., "Large Batch Optimization for Deep Learning: Training
// BERT in 76 minutes", ICLR 2020 (arXiv:1904.00962), algorithm 2 with phi(x) = x. The update needs
// the norms of whole parameters.
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  return InferOptimizer(view, /*scalars=*/2, outputs);
}

}  // namespace

constinit const OpDef kLamb = {
    .type = "lamb",
    .doc =
        "m, v as adam; r = m / (1-Beta1Pow) / (sqrt(v / (1-Beta2Pow)) + epsilon) + weight_decay "
        "Param; ParamOut = Param - LearningRate |Param| / |r| r (LearningRate r where a norm is "
        "0). "
        "Norms are those of the whole tensors.",
    .inputs = {{"Param"},
               {"Grad"},
               {"Moment1"},
               {"Moment2"},
               {"Beta1Pow"},
               {"Beta2Pow"},
               {"LearningRate"}},
    .outputs = {{"ParamOut"}, {"Moment1Out"}, {"Moment2Out"}, {"Beta1PowOut"}, {"Beta2PowOut"}},
    .attrs = {{"beta1", 0.9, "decay of the first moment"},
              {"beta2", 0.999, "decay of the second moment"},
              {"epsilon", 1e-6, "keeps the division finite"},
              {"weight_decay", 0.01, "weight decay"}},
    .infer = Infer,
    .cpu = &kLambCpu,
    .inplace = {{0, 0}, {1, 2}, {2, 3}, {3, 4}, {4, 5}},
};

}  // namespace tandem::ops
