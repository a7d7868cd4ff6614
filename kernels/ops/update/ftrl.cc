// Definition of ftrl (FTRL-Proximal). Source: McMahan et al., "Ad Click Prediction: a View from the
// Trenches", KDD 2013, algorithm 1 with beta = 0 and alpha = LearningRate. lambda_2 of the paper is
// 2 l2, as in PaddlePaddle 1.8.
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  return InferOptimizer(view, /*scalars=*/0, outputs);
}

}  // namespace

constinit const OpDef kFtrl = {
    .type = "ftrl",
    .doc =
        "n = Squared + g^2; z = Linear + g - (sqrt(n) - sqrt(Squared)) / LearningRate Param; "
        "ParamOut = (sign(z) l1 - z) / (sqrt(n) / LearningRate + 2 l2) where |z| > l1, else 0. "
        "LearningRate must be positive.",
    .inputs = {{"Param"},
               {"Grad"},
               {"Squared"},
               {"Linear"},
               {"LearningRate"},
               {"Rows", Arity::kOptional}},
    .outputs = {{"ParamOut"}, {"SquaredOut"}, {"LinearOut"}},
    .attrs = {{"l1", 0.0, "strength of the 1-norm"},
              {"l2", 0.0, "strength of the squared 2-norm"},
              LazyModeAttr()},
    .infer = Infer,
    .cpu = &kFtrlCpu,
    .inplace = {{0, 0}, {1, 2}, {2, 3}},
    .elementwise = true,
};

}  // namespace tandem::ops
