#include "kernels/ops/reduce/reduce.h"

#include <algorithm>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/math_loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/cpu/strided_copy.h"

namespace tandem::ops {
namespace {

enum class Kind { kSum, kMean, kMax };

struct State {
  const Loops& loops;
  const MathLoops& math;
  int64_t outer, len, inner;
  int threads, parts;
  // If true, the reduced dimensions are not adjacent. The kernel then copies X to a matrix [kept
  // dimensions, reduced dimensions] in scratch memory, and copies the gradient of this matrix back.
  bool gather;
  StridedCopy to_rows, from_rows;

  int64_t numel() const { return outer * len * inner; }
};

// Returns the dimensions of X in an order in which the reduced dimensions come last, and the
// strides of X in the same order.
std::pair<Shape, Strides> RowsFirst(const Shape& x, const Reduction& r) {
  const Strides strides = RowMajor(x);
  Shape dims = x;
  Strides from{};
  int next = 0;
  for (const bool reduced : {false, true}) {
    for (int d = 0; d < x.rank(); ++d) {
      if (r.reduced[static_cast<size_t>(d)] != reduced) continue;
      from[static_cast<size_t>(next)] = strides[static_cast<size_t>(d)];
      dims[next++] = x[d];
    }
  }
  return {dims, from};
}

template <Kind kind>
void ReduceOne(const State& s, const float* x, float* out) {
  const int64_t row = s.len * s.inner;
  for (int64_t o = 0; o < s.outer; ++o, x += row, out += s.inner) {
    if (kind == Kind::kMax && s.inner == 1) {
      *out = s.loops.max(x, s.len);
    } else if (kind == Kind::kMax) {
      std::copy_n(x, s.inner, out);
      for (int64_t i = 1; i < s.len; ++i) s.math.max(x + i * s.inner, out, out, s.inner);
    } else if (s.inner == 1) {
      *out = s.loops.sum(x, s.len);
    } else {
      s.loops.sum_rows(x, out, s.len, s.inner);
    }
  }
  if (kind != Kind::kMean) return;
  out -= s.outer * s.inner;
  s.loops.scale(out, 1.0f / static_cast<float>(s.len), 0.0f, out, s.outer * s.inner);
}

template <Kind kind>
Status Run(State& s, const KernelArgs& args) {
  const float* x = InF32(args, 0);
  if (s.gather) {
    s.to_rows.Run(x, args.scratch, s.threads);
    x = static_cast<const float*>(args.scratch);
  }
  ParallelFor(s.parts, s.outer, [&](int, int64_t begin, int64_t end) {
    State part = s;
    part.outer = end - begin;
    ReduceOne<kind>(part, x + begin * s.len * s.inner, OutF32(args, 0) + begin * s.inner);
  });
  return OkStatus();
}

// Writes the gradient of X. Each element of the result's gradient is multiplied by a factor and
// written to all elements of X from which the element was computed.
template <Kind kind>
void Spread(const State& s, const float* x, const float* g, const float* out, float* gx) {
  const float factor = kind == Kind::kMean ? 1.0f / static_cast<float>(s.len) : 1.0f;
  for (int64_t o = 0; o < s.outer; ++o, g += s.inner) {
    for (int64_t i = 0; i < s.len; ++i, gx += s.inner) {
      for (int64_t j = 0; j < s.inner; ++j) gx[j] = g[j] * factor;
      if (kind != Kind::kMax) continue;
      for (int64_t j = 0; j < s.inner; ++j) gx[j] = x[j] == out[j] ? gx[j] : 0.0f;
      x += s.inner;
    }
    if (kind == Kind::kMax) out += s.inner;
  }
}

// Computes the gradient of X. If the reduced dimensions are not adjacent, scratch memory contains
// the gradient and X, rearranged so that the reduced dimensions are last.
template <Kind kind>
Status RunGrad(State& s, const KernelArgs& args) {
  const float* x = InF32(args, 0);
  float* gx = OutF32(args, 0);
  if (s.gather) {
    gx = static_cast<float*>(args.scratch);
    if (kind == Kind::kMax) {
      s.to_rows.Run(x, gx + s.numel(), s.threads);
      x = gx + s.numel();
    }
  }
  ParallelFor(s.parts, s.outer, [&](int, int64_t begin, int64_t end) {
    State part = s;
    part.outer = end - begin;
    const int64_t row = s.len * s.inner, out = begin * s.inner;
    Spread<kind>(part, x + begin * row, InF32(args, 1) + out,
                 kind == Kind::kMax ? InF32(args, 2) + out : nullptr, gx + begin * row);
  });
  if (s.gather) s.from_rows.Run(gx, args.out[0], s.threads);
  return OkStatus();
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const Reduction r, ReductionOf(view));
  const Shape& x = view.in(0).shape;
  TD_REQUIRE(r.outer * r.len * r.inner == x.numel());
  const auto [dims, from] = RowsFirst(x, r);
  State s{BestLoops(),
          BestMathLoops(),
          r.outer,
          r.len,
          r.inner,
          ctx.threads,
          PartsFor(ctx.threads, x.numel()),
          !r.neighbours,
          StridedCopy(dims, from, RowMajor(dims), sizeof(float)),
          StridedCopy(dims, RowMajor(dims), from, sizeof(float))};
  if (s.gather) {
    s.outer *= s.inner;
    s.inner = 1;
  }
  const size_t scratch = s.gather ? 2 * view.in(0).bytes() : 0;
  return MakeKernel<State, Body>(std::move(s), scratch);
}

}  // namespace

constinit const KernelList kReduceSumCpu = {{"vector", Prepare<Run<Kind::kSum>>}};
constinit const KernelList kReduceMeanCpu = {{"vector", Prepare<Run<Kind::kMean>>}};
constinit const KernelList kReduceMaxCpu = {{"vector", Prepare<Run<Kind::kMax>>}};
constinit const KernelList kReduceSumGradCpu = {{"plain", Prepare<RunGrad<Kind::kSum>>}};
constinit const KernelList kReduceMeanGradCpu = {{"plain", Prepare<RunGrad<Kind::kMean>>}};
constinit const KernelList kReduceMaxGradCpu = {{"plain", Prepare<RunGrad<Kind::kMax>>}};

}  // namespace tandem::ops
