#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/update/optimizer_cpu.h"

namespace tandem::ops {
namespace {

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(UpdateState state, MakeUpdate(view, ctx, BestUpdateLoops().decayed_adagrad,
                                                    DecayedAdagradArgs(view)));
  return MakeKernel<UpdateState, RunPlainUpdate>(std::move(state));
}

}  // namespace

constinit const KernelList kDecayedAdagradCpu = {{"vector", Prepare}};

}  // namespace tandem::ops
