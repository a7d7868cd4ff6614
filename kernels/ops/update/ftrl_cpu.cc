#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_cpu.h"

namespace tandem::ops {
namespace {

Status Run(UpdateState& s, const KernelArgs& kernel) {
  UpdateArgs args = s.args;
  args.lr = s.lr(kernel);
  if (!(args.lr > 0)) {
    return InvalidArgument(
        "ftrl divides by the learning rate, which is %g at this step, expected above 0 [TD1104]; "
        "hint: change optimizer.schedule, whose rate becomes 0",
        args.lr);
  }
  return RunUpdate(s, args, kernel);
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(UpdateState state,
                      MakeUpdate(view, ctx, BestUpdateLoops().ftrl, FtrlArgs(view)));
  return MakeKernel<UpdateState, Run>(std::move(state));
}

}  // namespace

constinit const KernelList kFtrlCpu = {{"vector", Prepare}};

}  // namespace tandem::ops
