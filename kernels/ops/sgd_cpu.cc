#include "kernels/ops/cpu_args.h"
#include "kernels/ops/loops.h"
#include "kernels/ops/op_defs.h"
#include "kernels/ops/parallel.h"

namespace tandem {
namespace {

struct State {
  const Loops& loops;
  int64_t n;
  int parts;
};

Status Run(State& s, const KernelArgs& args) {
  const float lr = *InF32(args, 2);
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    s.loops.sgd(InF32(args, 0) + begin, InF32(args, 1) + begin, lr, OutF32(args, 0) + begin,
                end - begin);
  });
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const int64_t n = view.in(0).shape.numel();
  return MakeKernel<State, Run>({BestLoops(), n, PartsFor(ctx.threads, n)});
}

}  // namespace

std::vector<KernelImpl> SgdCpu() { return {{"vector", Prepare}}; }

}  // namespace tandem
