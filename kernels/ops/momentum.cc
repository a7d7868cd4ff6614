#include "kernels/ops/infer.h"
#include "kernels/ops/op_defs.h"

namespace tandem {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "Param", 1, "Grad"));
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "Param", 2, "Velocity"));
  TD_RETURN_IF_ERROR(NeedOne(view, 3, "LearningRate"));
  TD_RETURN_IF_ERROR(NeedF32(view));
  outputs[0] = outputs[1] = view.in(0);
  return OkStatus();
}

}  // namespace

const OpDef kMomentum = {
    .type = "momentum",
    .doc =
        "VelocityOut = mu * Velocity + Grad; ParamOut = Param - LearningRate * VelocityOut, with "
        "use_nesterov Param - LearningRate * (Grad + mu * VelocityOut).",
    .inputs = {{"Param"}, {"Grad"}, {"Velocity"}, {"LearningRate"}},
    .outputs = {{"ParamOut"}, {"VelocityOut"}},
    .attrs = {{"mu", 0.9, "share of the velocity that stays"},
              {"use_nesterov", false, "look ahead: Sutskever et al., ICML 2013"}},
    .infer = Infer,
    .cpu = MomentumCpu(),
    .inplace = {{0, 0}, {1, 2}},
};

}  // namespace tandem
