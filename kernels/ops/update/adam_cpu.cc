#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/formulas/update.h"
#include "kernels/ops/update/optimizer_cpu.h"

namespace tandem::ops {
namespace {

Status Run(UpdateState& s, const KernelArgs& kernel) {
  const float power1 = *InF32(kernel, 4), power2 = *InF32(kernel, 5), lr = s.lr(kernel);
  UpdateArgs args = s.args;
  AdamStep::Begin(lr, power1, power2, args);
  TD_RETURN_IF_ERROR(RunUpdate(s, args, kernel));
  *OutF32(kernel, 3) = power1 * s.args.beta1;
  *OutF32(kernel, 4) = power2 * s.args.beta2;
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(UpdateState state,
                      MakeUpdate(view, ctx, BestUpdateLoops().adam, AdamArgs(view), /*scalars=*/2));
  return MakeKernel<UpdateState, Run>(std::move(state));
}

}  // namespace

constinit const KernelList kAdamCpu = {{"vector", Prepare}};

}  // namespace tandem::ops
