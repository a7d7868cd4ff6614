// Definition of adamax. Source: Kingma and Ba, ICLR 2015, algorithm 2. epsilon is added as in
// PaddlePaddle 1.8.
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  return InferOptimizer(view, /*scalars=*/1, outputs);
}

}  // namespace

constinit const OpDef kAdamax = {
    .type = "adamax",
    .doc =
        "m = beta1 m + (1-beta1) g; u = max(|g|, beta2 u + epsilon); ParamOut = Param - "
        "LearningRate / (1-Beta1Pow) m / u. Beta1Pow starts at beta1 and is multiplied by it "
        "afterwards.",
    .inputs = {{"Param"},
               {"Grad"},
               {"Moment"},
               {"InfNorm"},
               {"Beta1Pow"},
               {"LearningRate"},
               {"Rows", Arity::kOptional}},
    .outputs = {{"ParamOut"}, {"MomentOut"}, {"InfNormOut"}, {"Beta1PowOut"}},
    .attrs = {{"beta1", 0.9, "decay of the first moment"},
              {"beta2", 0.999, "decay of the infinity norm"},
              {"epsilon", 1e-8, "keeps the division finite"},
              LazyModeAttr()},
    .infer = Infer,
    .cpu = &kAdamaxCpu,
    .inplace = {{0, 0}, {1, 2}, {2, 3}, {3, 4}},
    .elementwise = true,
};

}  // namespace tandem::ops
