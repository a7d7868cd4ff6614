// Definition of adam, in the form with a corrected learning rate. Source: Kingma and Ba, ICLR 2015,
// end of section 2. epsilon is scaled, so that epsilon has the same meaning as in algorithm 1.
// Source of the decoupled weight decay: Loshchilov and Hutter, "Decoupled Weight Decay
// Regularization", ICLR 2019, algorithm 2 (AdamW).
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  return InferOptimizer(view, /*scalars=*/2, outputs);
}

}  // namespace

constinit const OpDef kAdam = {
    .type = "adam",
    .doc =
        "m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g^2; lr_t = lr sqrt(1-Beta2Pow) / "
        "(1-Beta1Pow); ParamOut = (1 - lr weight_decay) Param - lr_t m / (sqrt(v) + epsilon "
        "sqrt(1-Beta2Pow)). The powers start at beta and are multiplied by it afterwards.",
    .inputs = {{"Param"},
               {"Grad"},
               {"Moment1"},
               {"Moment2"},
               {"Beta1Pow"},
               {"Beta2Pow"},
               {"LearningRate"},
               {"Rows", Arity::kOptional}},
    .outputs = {{"ParamOut"}, {"Moment1Out"}, {"Moment2Out"}, {"Beta1PowOut"}, {"Beta2PowOut"}},
    .attrs = {{"beta1", 0.9, "decay of the first moment"},
              {"beta2", 0.999, "decay of the second moment"},
              {"epsilon", 1e-8, "keeps the division finite"},
              {"weight_decay", 0.0, "decoupled weight decay"},
              LazyModeAttr()},
    .infer = Infer,
    .cpu = &kAdamCpu,
    .inplace = {{0, 0}, {1, 2}, {2, 3}, {3, 4}, {4, 5}},
    .elementwise = true,
};

}  // namespace tandem::ops
