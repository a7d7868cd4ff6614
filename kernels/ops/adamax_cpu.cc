#include "kernels/ops/op_defs.h"
#include "kernels/ops/optimizer_cpu.h"

namespace tandem {
namespace {

Status Run(UpdateState& s, const KernelArgs& kernel) {
  const float power = *InF32(kernel, 4);
  UpdateArgs args = s.args;
  args.lr = s.lr(kernel) / (1.0f - power);
  TD_RETURN_IF_ERROR(RunUpdate(s, args, kernel));
  *OutF32(kernel, 3) = power * s.args.beta1;
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const UpdateArgs args{.beta1 = AttrF32(view, "beta1"),
                        .beta2 = AttrF32(view, "beta2"),
                        .epsilon = AttrF32(view, "epsilon")};
  TD_ASSIGN_OR_RETURN(UpdateState state,
                      MakeUpdate(view, ctx, BestUpdateLoops().adamax, args, /*scalars=*/1));
  return MakeKernel<UpdateState, Run>(std::move(state));
}

}  // namespace

std::vector<KernelImpl> AdamaxCpu() { return {{"vector", Prepare}}; }

}  // namespace tandem
