// Definition of adagrad. Source: Duchi, Hazan and Singer, "Adaptive Subgradient Methods", JMLR 12
// (2011), in the form with a diagonal matrix.
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  return InferOptimizer(view, /*scalars=*/0, outputs);
}

}  // namespace

constinit const OpDef kAdagrad = {
    .type = "adagrad",
    .doc = "Moment += Grad^2; ParamOut = Param - LearningRate Grad / (sqrt(Moment) + epsilon).",
    .inputs = {{"Param"}, {"Grad"}, {"Moment"}, {"LearningRate"}, {"Rows", Arity::kOptional}},
    .outputs = {{"ParamOut"}, {"MomentOut"}},
    .attrs = {{"epsilon", 1e-6, "keeps the division finite"},
              {"initial_accumulator", 0.0,
               "what Moment starts from; read when the program is made"}},
    .infer = Infer,
    .cpu = &kAdagradCpu,
    .inplace = {{0, 0}, {1, 2}},
    .elementwise = true,
};

}  // namespace tandem::ops
