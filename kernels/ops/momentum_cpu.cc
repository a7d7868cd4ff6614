#include "kernels/ops/cpu_args.h"
#include "kernels/ops/loops.h"
#include "kernels/ops/op_defs.h"
#include "kernels/ops/parallel.h"

namespace tandem {
namespace {

struct State {
  const Loops& loops;
  int64_t n;
  float mu;
  bool nesterov;
  int parts;
};

Status Run(State& s, const KernelArgs& args) {
  const MomentumArgs values{*InF32(args, 3), s.mu, s.nesterov};
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    s.loops.momentum(InF32(args, 0) + begin, InF32(args, 1) + begin, InF32(args, 2) + begin, values,
                     OutF32(args, 0) + begin, OutF32(args, 1) + begin, end - begin);
  });
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const int64_t n = view.in(0).shape.numel();
  return MakeKernel<State, Run>({BestLoops(), n, static_cast<float>(view.attr<double>("mu")),
                                 view.attr<bool>("use_nesterov"), PartsFor(ctx.threads, n)});
}

}  // namespace

std::vector<KernelImpl> MomentumCpu() { return {{"vector", Prepare}}; }

}  // namespace tandem
