#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/square_sum.h"
#include "kernels/ops/formulas/update.h"
#include "kernels/ops/update/optimizer_cpu.h"

namespace tandem::ops {
namespace {

struct State {
  UpdateState update;
  SquareSum squares;
};

// Scratch memory contains the direction of the step, then scratch for the sums of squares.
Status Run(State& s, const KernelArgs& kernel) {
  const float power1 = *InF32(kernel, 4), power2 = *InF32(kernel, 5);
  const int64_t n = s.update.n;
  auto* direction = static_cast<float*>(kernel.scratch);
  float* sums = direction + n;
  UpdateArgs args = s.update.args;
  LambStep::Begin(power1, power2, args);
  ParallelFor(s.update.parts, n, [&](int, int64_t b, int64_t e) {
    s.update.loop(args, {.p = InF32(kernel, 0) + b,
                         .g = InF32(kernel, 1) + b,
                         .s = {InF32(kernel, 2) + b, InF32(kernel, 3) + b, nullptr},
                         .po = direction + b,
                         .so = {OutF32(kernel, 1) + b, OutF32(kernel, 2) + b, nullptr},
                         .n = e - b});
  });
  const float p = s.squares.Norm(InF32(kernel, 0), sums), r = s.squares.Norm(direction, sums);
  const UpdateArgs step{.lr = LambStep::Rate(s.update.lr(kernel), p, r)};
  ParallelFor(s.update.parts, n, [&](int, int64_t b, int64_t e) {
    BestUpdateLoops().sgd(step, {.p = InF32(kernel, 0) + b,
                                 .g = direction + b,
                                 .s = {},
                                 .po = OutF32(kernel, 0) + b,
                                 .so = {},
                                 .n = e - b});
  });
  *OutF32(kernel, 3) = power1 * s.update.args.beta1;
  *OutF32(kernel, 4) = power2 * s.update.args.beta2;
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(UpdateState update,
                      MakeUpdate(view, ctx, BestUpdateLoops().lamb, AdamArgs(view), /*scalars=*/2));
  const SquareSum squares(update.n, update.parts);
  TD_REQUIRE(!update.sparse && update.n == view.out(0).shape.numel());
  const size_t scratch = static_cast<size_t>(update.n) * sizeof(float) + squares.scratch_bytes();
  return MakeKernel<State, Run>({std::move(update), squares}, scratch);
}

}  // namespace

constinit const KernelList kLambCpu = {{"vector", Prepare}};

}  // namespace tandem::ops
