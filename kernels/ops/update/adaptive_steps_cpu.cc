#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/formulas/step_state.h"

namespace tandem::ops {
namespace {

Status Run(AdaptiveStepsRule& rule, const KernelArgs& args) {
  const AdaptiveSteps next = rule.Next(
      *InF32(args, 0), *InF32(args, 1),
      {.base_loss = *InF32(args, 2), .base_rate = *InF32(args, 3), .steps = *InF32(args, 4)});
  *OutF32(args, 0) = static_cast<float>(next.base_loss);
  *OutF32(args, 1) = static_cast<float>(next.base_rate);
  *OutF32(args, 2) = static_cast<float>(next.steps);
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  return MakeKernel<AdaptiveStepsRule, Run>(AdaptiveStepsRuleOf(view));
}

}  // namespace

constinit const KernelList kAdaptiveStepsCpu = {{"plain", Prepare}};

}  // namespace tandem::ops
