#include <cstring>

#include "kernels/ops/cpu_args.h"
#include "kernels/ops/loops.h"
#include "kernels/ops/op_defs.h"

namespace tandem {
namespace {

struct State {
  const Loops& loops;
  int64_t n;
  int count;
};

Status Run(State& s, const KernelArgs& args) {
  float* out = OutF32(args, 0);
  if (s.count == 1) {
    if (out != InF32(args, 0)) std::memcpy(out, InF32(args, 0), s.n * sizeof(float));
    return OkStatus();
  }
  s.loops.add(InF32(args, 0), InF32(args, 1), out, s.n);
  for (int i = 2; i < s.count; ++i) s.loops.add(out, InF32(args, i), out, s.n);
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  return MakeKernel<State, Run>(
      {BestLoops(), view.in(0).shape.numel(), static_cast<int>(view.in_count())});
}

}  // namespace

std::vector<KernelImpl> SumCpu() { return {{"vector", Prepare}}; }

}  // namespace tandem
