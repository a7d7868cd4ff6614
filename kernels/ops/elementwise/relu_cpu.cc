#include "common/base/require.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

struct State {
  const Loops& loops;
  int64_t n;
  int parts;
};

State StateFor(const OpView& view, const PrepareContext& ctx) {
  const int64_t n = view.in(0).shape.numel();
  TD_REQUIRE(view.out(0).shape.numel() == n && view.out(0).dtype == DType::kF32);
  TD_REQUIRE(view.in_count() == 1 || view.in(1).shape.numel() == n);
  return {BestLoops(), n, PartsFor(ctx.threads, n / 2)};
}

Status Run(State& s, const KernelArgs& args) {
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    s.loops.relu(InF32(args, 0) + begin, OutF32(args, 0) + begin, end - begin);
  });
  return OkStatus();
}

Status RunGrad(State& s, const KernelArgs& args) {
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    s.loops.relu_grad(InF32(args, 0) + begin, InF32(args, 1) + begin, OutF32(args, 0) + begin,
                      end - begin);
  });
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  return MakeKernel<State, Run>(StateFor(view, ctx));
}

StatusOr<Kernel> PrepareGrad(const OpView& view, const PrepareContext& ctx) {
  return MakeKernel<State, RunGrad>(StateFor(view, ctx));
}

}  // namespace

constinit const KernelList kReluCpu = {{"vector", OrWidened<Prepare>}};
constinit const KernelList kReluGradCpu = {{"vector", OrWidened<PrepareGrad>}};

}  // namespace tandem::ops
