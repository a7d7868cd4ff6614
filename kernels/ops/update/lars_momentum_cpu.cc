#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/square_sum.h"
#include "kernels/ops/formulas/update.h"
#include "kernels/ops/update/optimizer_cpu.h"

namespace tandem::ops {
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
  LarsStep::Begin(s.update.lr(kernel), s.coeff, p, g, args);
  return RunUpdate(s.update, args, kernel);
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(UpdateState update,
                      MakeUpdate(view, ctx, BestUpdateLoops().lars, LarsArgs(view)));
  const SquareSum squares(update.n, update.parts);
  TD_REQUIRE(!update.sparse && update.n == view.out(0).shape.numel());
  return MakeKernel<State, Run>({std::move(update), squares, AttrF32(view, "lars_coeff")},
                                squares.scratch_bytes());
}

}  // namespace

constinit const KernelList kLarsMomentumCpu = {{"vector", Prepare}};

}  // namespace tandem::ops
