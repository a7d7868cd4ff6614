#include "kernels/ops/op_defs.h"
#include "kernels/ops/optimizer_cpu.h"
#include "kernels/ops/square_sum.h"

namespace tandem {
namespace {

struct State {
  UpdateState update;
  SquareSum squares;
  float coeff;
};

Status Run(State& s, const KernelArgs& kernel) {
  const float p = s.squares.Norm(InF32(kernel, 0), kernel.scratch);
  const float g = s.squares.Norm(InF32(kernel, 1), kernel.scratch);
  UpdateArgs args = s.update.args;
  args.lr = s.update.lr(kernel);
  if (args.weight_decay > 0 && p > 0 && g > 0) {
    args.lr = args.lr * s.coeff * p / (g + args.weight_decay * p + args.epsilon);
  }
  return RunUpdate(s.update, args, kernel);
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const UpdateArgs args{.epsilon = AttrF32(view, "epsilon"),
                        .mu = AttrF32(view, "mu"),
                        .weight_decay = AttrF32(view, "weight_decay")};
  TD_ASSIGN_OR_RETURN(UpdateState update, MakeUpdate(view, ctx, BestUpdateLoops().lars, args));
  const SquareSum squares(update.n, update.parts);
  return MakeKernel<State, Run>({std::move(update), squares, AttrF32(view, "lars_coeff")},
                                squares.scratch_bytes());
}

}  // namespace

std::vector<KernelImpl> LarsMomentumCpu() { return {{"vector", Prepare}}; }

}  // namespace tandem
