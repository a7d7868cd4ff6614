#include "kernels/ops/op_defs.h"
#include "kernels/ops/optimizer_cpu.h"

namespace tandem {
namespace {

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  constexpr size_t kMeanGrad = 4;
  if (view.has_in(kMeanGrad) != view.attr<bool>("centered")) {
    return view.Error("MeanGrad must be there with centered, and only then");
  }
  const UpdateArgs args{.epsilon = AttrF32(view, "epsilon"),
                        .mu = AttrF32(view, "mu"),
                        .decay = AttrF32(view, "decay")};
  TD_ASSIGN_OR_RETURN(UpdateState state, MakeUpdate(view, ctx, BestUpdateLoops().rmsprop, args));
  return MakeKernel<UpdateState, RunPlainUpdate>(std::move(state));
}

}  // namespace

std::vector<KernelImpl> RmspropCpu() { return {{"vector", Prepare}}; }

}  // namespace tandem
