#include <cstring>

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
  int count, parts;
};

Status Run(State& s, const KernelArgs& args) {
  float* out = OutF32(args, 0);
  if (s.count == 1) {
    if (out != InF32(args, 0)) std::memcpy(out, InF32(args, 0), s.n * sizeof(float));
    return OkStatus();
  }
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    s.loops.add(InF32(args, 0) + begin, InF32(args, 1) + begin, out + begin, end - begin);
    for (int i = 2; i < s.count; ++i) {
      s.loops.add(out + begin, InF32(args, i) + begin, out + begin, end - begin);
    }
  });
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const int64_t n = view.in(0).shape.numel();
  TD_REQUIRE(view.in_count() >= 1 && view.out(0).shape.numel() == n);
  for (size_t i = 0; i < view.in_count(); ++i) TD_REQUIRE(view.in(i).shape.numel() == n);
  return MakeKernel<State, Run>(
      {BestLoops(), n, static_cast<int>(view.in_count()), PartsFor(ctx.threads, n / 2)});
}

}  // namespace

constinit const KernelList kSumCpu = {{"vector", OrWidened<Prepare>}};

}  // namespace tandem::ops
