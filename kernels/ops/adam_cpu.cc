#include <cmath>

#include "kernels/ops/cpu_args.h"
#include "kernels/ops/loops.h"
#include "kernels/ops/op_defs.h"
#include "kernels/ops/parallel.h"

namespace tandem {
namespace {

struct State {
  const Loops& loops;
  int64_t n;
  float beta1, beta2, epsilon;
  int parts;
};

Status Run(State& s, const KernelArgs& args) {
  const float power1 = *InF32(args, 4), power2 = *InF32(args, 5), lr = *InF32(args, 6);
  const float root = std::sqrt(1.0f - power2);
  const AdamArgs values{lr * root / (1.0f - power1), s.beta1, s.beta2, s.epsilon * root};
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    s.loops.adam(InF32(args, 0) + begin, InF32(args, 1) + begin, InF32(args, 2) + begin,
                 InF32(args, 3) + begin, values, OutF32(args, 0) + begin, OutF32(args, 1) + begin,
                 OutF32(args, 2) + begin, end - begin);
  });
  *OutF32(args, 3) = power1 * s.beta1;
  *OutF32(args, 4) = power2 * s.beta2;
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const int64_t n = view.in(0).shape.numel();
  return MakeKernel<State, Run>({BestLoops(), n, static_cast<float>(view.attr<double>("beta1")),
                                 static_cast<float>(view.attr<double>("beta2")),
                                 static_cast<float>(view.attr<double>("epsilon")),
                                 PartsFor(ctx.threads, 4 * n)});
}

}  // namespace

std::vector<KernelImpl> AdamCpu() { return {{"vector", Prepare}}; }

}  // namespace tandem
