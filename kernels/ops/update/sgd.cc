#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  return InferOptimizer(view, /*scalars=*/0, outputs);
}

}  // namespace

constinit const OpDef kSgd = {
    .type = "sgd",
    .doc = "ParamOut = Param - LearningRate * Grad.",
    .inputs = {{"Param"}, {"Grad"}, {"LearningRate"}, {"Rows", Arity::kOptional}},
    .outputs = {{"ParamOut"}},
    .infer = Infer,
    .cpu = &kSgdCpu,
    .inplace = {{0, 0}},
    .elementwise = true,
};

}  // namespace tandem::ops
