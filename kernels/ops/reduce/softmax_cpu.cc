#include <algorithm>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/math_loops.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

struct State {
  const MathLoops& loops;
  int64_t rows, n;
  int64_t height;  // number of rows of a causal matrix; 0: not causal
  int parts;

  // Returns the number of elements at the start of a row that are not masked.
  int64_t Kept(int64_t row) const { return height == 0 ? n : row % height + 1 + n - height; }
};

Status Run(State& s, const KernelArgs& args) {
  ParallelFor(s.parts, s.rows, [&](int, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* out = OutF32(args, 0) + r * s.n;
      const int64_t kept = s.Kept(r);
      s.loops.softmax_row(InF32(args, 0) + r * s.n, out, kept);
      std::fill(out + kept, out + s.n, 0.0f);
    }
  });
  return OkStatus();
}

Status RunGrad(State& s, const KernelArgs& args) {
  ParallelFor(s.parts, s.rows, [&](int, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t at = r * s.n, kept = s.Kept(r);
      float* gx = OutF32(args, 0) + at;
      s.loops.softmax_row_grad(InF32(args, 0) + at, InF32(args, 1) + at, gx, kept);
      std::fill(gx + kept, gx + s.n, 0.0f);
    }
  });
  return OkStatus();
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const Shape& x = view.in(0).shape;
  const int rank = x.rank();
  TD_REQUIRE(rank >= 1 && (rank >= 2 || !view.attr<bool>("causal")));
  TD_REQUIRE(view.out(0).shape.numel() == x.numel());
  const int64_t rows = x.numel(0, rank - 1), n = x[rank - 1];
  const int64_t height = view.attr<bool>("causal") ? x[rank - 2] : 0;
  return MakeKernel<State, Body>(
      {BestMathLoops(), rows, n, height, PartsFor(ctx.threads, 2 * rows * n)});
}

}  // namespace

constinit const KernelList kSoftmaxCpu = {{"vector", Prepare<Run>}};
constinit const KernelList kSoftmaxGradCpu = {{"vector", Prepare<RunGrad>}};

}  // namespace tandem::ops
