// Definition of rmsprop. Source: Tieleman and Hinton, "Neural Networks for Machine Learning",
// lecture 6.5 (2012). Source of `centered` and of the momentum: Graves, "Generating Sequences With
// Recurrent Neural Networks", 2013, equations 38 to 41.
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  return InferOptimizer(view, /*scalars=*/0, outputs);
}

}  // namespace

constinit const OpDef kRmsprop = {
    .type = "rmsprop",
    .doc =
        "s = decay s + (1-decay) g^2; with centered a = decay a + (1-decay) g, else a = 0; "
        "Momentum = mu Momentum + LearningRate g / sqrt(max(s - a^2, 0) + epsilon); ParamOut = "
        "Param - Momentum. With MeanGrad it is centered.",
    .inputs = {{"Param"},
               {"Grad"},
               {"MeanSquare"},
               {"Momentum"},
               {"MeanGrad", Arity::kOptional},
               {"LearningRate"},
               {"Rows", Arity::kOptional}},
    .outputs = {{"ParamOut"},
                {"MeanSquareOut"},
                {"MomentumOut"},
                {"MeanGradOut", Arity::kOptional}},
    .attrs = {{"decay", 0.95, "share of the running means that stays"},
              {"mu", 0.0, "share of the velocity that stays"},
              {"epsilon", 1e-6, "keeps the division finite"},
              {"centered", false, "MeanGrad is there"},
              LazyModeAttr()},
    .infer = Infer,
    .cpu = &kRmspropCpu,
    .inplace = {{0, 0}, {1, 2}, {2, 3}, {3, 4}},
    .elementwise = true,
};

}  // namespace tandem::ops
