// Adam in the form with a corrected learning rate: Kingma and Ba, ICLR 2015, end of section 2, with
// epsilon scaled so that it is the epsilon of algorithm 1.
#include "kernels/ops/infer.h"
#include "kernels/ops/op_defs.h"

namespace tandem {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "Param", 1, "Grad"));
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "Param", 2, "Moment1"));
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "Param", 3, "Moment2"));
  TD_RETURN_IF_ERROR(NeedOne(view, 4, "Beta1Pow"));
  TD_RETURN_IF_ERROR(NeedOne(view, 5, "Beta2Pow"));
  TD_RETURN_IF_ERROR(NeedOne(view, 6, "LearningRate"));
  TD_RETURN_IF_ERROR(NeedF32(view));
  outputs[0] = outputs[1] = outputs[2] = view.in(0);
  outputs[3] = outputs[4] = view.in(4);
  return OkStatus();
}

}  // namespace

const OpDef kAdam = {
    .type = "adam",
    .doc =
        "m = beta1 m + (1-beta1) g; v = beta2 v + (1-beta2) g^2; lr_t = lr sqrt(1-Beta2Pow) / "
        "(1-Beta1Pow); ParamOut = Param - lr_t m / (sqrt(v) + epsilon sqrt(1-Beta2Pow)). The "
        "powers start at beta and are multiplied by it afterwards.",
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
              {"epsilon", 1e-8, "keeps the division finite"}},
    .infer = Infer,
    .cpu = AdamCpu(),
    .inplace = {{0, 0}, {1, 2}, {2, 3}, {3, 4}, {4, 5}},
};

}  // namespace tandem
