#include "kernels/ops/infer.h"
#include "kernels/ops/op_defs.h"

namespace tandem {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "Param", 1, "Grad"));
  TD_RETURN_IF_ERROR(NeedOne(view, 2, "LearningRate"));
  return InferAsFirst(view, outputs);
}

}  // namespace

const OpDef kSgd = {
    .type = "sgd",
    .doc = "ParamOut = Param - LearningRate * Grad.",
    .inputs = {{"Param"}, {"Grad"}, {"LearningRate"}},
    .outputs = {{"ParamOut"}},
    .infer = Infer,
    .cpu = SgdCpu(),
    .inplace = {{0, 0}},
};

}  // namespace tandem
