// Definition of decayed_adagrad, which is adagrad with a decaying window. Source: Tieleman and
// Hinton, "Neural Networks for Machine Learning", lecture 6.5 (2012), in the form without momentum.
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  return InferOptimizer(view, /*scalars=*/0, outputs);
}

}  // namespace

constinit const OpDef kDecayedAdagrad = {
    .type = "decayed_adagrad",
    .doc =
        "Moment = decay Moment + (1-decay) Grad^2; ParamOut = Param - LearningRate Grad / "
        "(sqrt(Moment) + epsilon).",
    .inputs = {{"Param"}, {"Grad"}, {"Moment"}, {"LearningRate"}, {"Rows", Arity::kOptional}},
    .outputs = {{"ParamOut"}, {"MomentOut"}},
    .attrs = {{"decay", 0.95, "share of the mean square that stays"},
              {"epsilon", 1e-6, "keeps the division finite"},
              LazyModeAttr()},
    .infer = Infer,
    .cpu = &kDecayedAdagradCpu,
    .inplace = {{0, 0}, {1, 2}},
    .elementwise = true,
};

}  // namespace tandem::ops
