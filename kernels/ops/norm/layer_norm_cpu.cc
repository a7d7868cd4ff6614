#include <algorithm>
#include <cmath>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/math_loops.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

struct State {
  const MathLoops& math;
  const Loops& loops;
  int64_t rows, n;
  float epsilon;
  int parts;

  float Inverse(float variance) const { return 1.0f / std::sqrt(variance + epsilon); }
};

void NormalizeRows(const State& s, const KernelArgs& args, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const float* x = InF32(args, 0) + r * s.n;
    float m, v;
    s.math.moments(x, s.n, &m, &v);
    s.math.normalize_row(x, m, s.Inverse(v), InF32(args, 1), InF32(args, 2),
                         OutF32(args, 0) + r * s.n, s.n);
    OutF32(args, 1)[r] = m;
    OutF32(args, 2)[r] = v;
  }
}

Status Run(State& s, const KernelArgs& args) {
  ParallelFor(s.parts, s.rows,
              [&](int, int64_t begin, int64_t end) { NormalizeRows(s, args, begin, end); });
  return OkStatus();
}

// Number of rows per block. The gradients of Scale and Bias are sums over the rows. The rows of
// each block are added first, then the sums of the blocks. Thus the result has the same bits for
// any number of threads.
constexpr int64_t kBlock = 64;
int64_t Blocks(int64_t rows) { return (rows + kBlock - 1) / kBlock; }

// The outputs for one block of rows: the gradient of X, and the block's parts of the gradients of
// Scale and Bias.
struct RowGrads {
  const float* scale;
  float *gx, *gscale, *gbias;  // gradients; nullptr: the gradient is not needed
};

void BlockGrad(const State& s, const KernelArgs& args, RowGrads to, int64_t begin, int64_t end) {
  if (to.gscale != nullptr) std::fill_n(to.gscale, s.n, 0.0f);
  if (to.gbias != nullptr) std::fill_n(to.gbias, s.n, 0.0f);
  for (int64_t r = begin; r < end; ++r) {
    const int64_t at = r * s.n;
    const float mean = InF32(args, 2)[r], inverse = s.Inverse(InF32(args, 3)[r]);
    float* gx = to.gx == nullptr ? nullptr : to.gx + at;
    s.math.normalize_row_grad(InF32(args, 0) + at, mean, inverse, to.scale, InF32(args, 4) + at, gx,
                              to.gscale, to.gbias, s.n);
  }
}

// Scratch memory contains n ones, which replace a missing Scale, then the blocks' parts of the
// gradients of Scale and of Bias [blocks, n].
Status RunGrad(State& s, const KernelArgs& args) {
  float *gscale = OutF32(args, 1), *gbias = OutF32(args, 2);
  const int64_t blocks = Blocks(s.rows);
  auto* ones = static_cast<float*>(args.scratch);
  float *scales = ones + s.n, *biases = scales + blocks * s.n;
  std::fill_n(ones, s.n, 1.0f);
  const float* scale = InF32(args, 1) == nullptr ? ones : InF32(args, 1);
  const auto run = [&](int, int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      const RowGrads to{scale, OutF32(args, 0), gscale == nullptr ? nullptr : scales + b * s.n,
                        gbias == nullptr ? nullptr : biases + b * s.n};
      BlockGrad(s, args, to, b * kBlock, std::min(s.rows, (b + 1) * kBlock));
    }
  };
  ParallelFor(s.parts, blocks, run);
  if (gscale != nullptr) s.loops.sum_rows(scales, gscale, blocks, s.n);
  if (gbias != nullptr) s.loops.sum_rows(biases, gbias, blocks, s.n);
  return OkStatus();
}

State StateFor(const OpView& view, const PrepareContext& ctx) {
  const Shape& x = view.in(0).shape;
  const int axis = static_cast<int>(view.attr<int64_t>("begin_norm_axis"));
  TD_REQUIRE(axis >= 0 && axis <= x.rank());
  return {BestMathLoops(),
          BestLoops(),
          x.numel(0, axis),
          x.numel(axis, x.rank()),
          static_cast<float>(view.attr<double>("epsilon")),
          PartsFor(ctx.threads, x.numel())};
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  return MakeKernel<State, Run>(StateFor(view, ctx));
}

StatusOr<Kernel> PrepareGrad(const OpView& view, const PrepareContext& ctx) {
  const State s = StateFor(view, ctx);
  return MakeKernel<State, RunGrad>(s, (1 + 2 * Blocks(s.rows)) * s.n * sizeof(float));
}

}  // namespace

constinit const KernelList kLayerNormCpu = {{"vector", Prepare}};
constinit const KernelList kLayerNormGradCpu = {{"vector", PrepareGrad}};

}  // namespace tandem::ops
