#include "kernels/ops/op_defs.h"
#include "kernels/ops/optimizer_cpu.h"

namespace tandem {
namespace {

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const UpdateArgs args{.mu = AttrF32(view, "mu"), .nesterov = view.attr<bool>("use_nesterov")};
  TD_ASSIGN_OR_RETURN(UpdateState state, MakeUpdate(view, ctx, BestUpdateLoops().momentum, args));
  return MakeKernel<UpdateState, RunPlainUpdate>(std::move(state));
}

}  // namespace

std::vector<KernelImpl> MomentumCpu() { return {{"vector", Prepare}}; }

}  // namespace tandem
