#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/formulas/update.h"
#include "kernels/ops/update/optimizer_cpu.h"

namespace tandem::ops {
namespace {

Status Run(UpdateState& s, const KernelArgs& kernel) {
  const float power = *InF32(kernel, 4);
  UpdateArgs args = s.args;
  AdamaxStep::Begin(s.lr(kernel), power, args);
  TD_RETURN_IF_ERROR(RunUpdate(s, args, kernel));
  *OutF32(kernel, 3) = power * s.args.beta1;
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(UpdateState state, MakeUpdate(view, ctx, BestUpdateLoops().adamax,
                                                    AdamaxArgs(view), /*scalars=*/1));
  return MakeKernel<UpdateState, Run>(std::move(state));
}

}  // namespace

constinit const KernelList kAdamaxCpu = {{"vector", Prepare}};

}  // namespace tandem::ops
