#include <cmath>

#include "kernels/ops/op_defs.h"
#include "kernels/ops/optimizer_cpu.h"

namespace tandem {
namespace {

Status Run(UpdateState& s, const KernelArgs& kernel) {
  const float power1 = *InF32(kernel, 4), power2 = *InF32(kernel, 5), lr = s.lr(kernel);
  const float root = std::sqrt(1.0f - power2);
  UpdateArgs args = s.args;
  args.lr = lr * root / (1.0f - power1);
  args.epsilon = s.args.epsilon * root;
  args.keep = 1.0f - lr * s.args.weight_decay;
  TD_RETURN_IF_ERROR(RunUpdate(s, args, kernel));
  *OutF32(kernel, 3) = power1 * s.args.beta1;
  *OutF32(kernel, 4) = power2 * s.args.beta2;
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const UpdateArgs args{.beta1 = AttrF32(view, "beta1"),
                        .beta2 = AttrF32(view, "beta2"),
                        .epsilon = AttrF32(view, "epsilon"),
                        .weight_decay = AttrF32(view, "weight_decay")};
  TD_ASSIGN_OR_RETURN(UpdateState state,
                      MakeUpdate(view, ctx, BestUpdateLoops().adam, args, /*scalars=*/2));
  return MakeKernel<UpdateState, Run>(std::move(state));
}

}  // namespace

std::vector<KernelImpl> AdamCpu() { return {{"vector", Prepare}}; }

}  // namespace tandem
