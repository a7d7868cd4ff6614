#include <algorithm>
#include <cstring>

#include "common/base/require.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/math_loops.h"
#include "kernels/ops/cpu/parallel_copy.h"
#include "kernels/ops/elementwise/elementwise.h"

namespace tandem::ops {
namespace {

enum class Kind { kAdd, kMul };

struct State {
  const Loops& loops;
  BroadcastShape s;
  int threads;
  int64_t numel() const { return s.outer * s.len * s.inner; }
};

// Combines `outer` rows of X with Y. Each element of Y is repeated `inner` times.
template <Kind kind>
void CombineRows(const State& st, int64_t outer, const float* x, const float* y, float* out) {
  const int64_t len = st.s.len, inner = st.s.inner;
  const auto pairwise = kind == Kind::kAdd ? st.loops.add : st.loops.mul;
  for (int64_t o = 0; o < outer; ++o) {
    const int64_t row = o * len * inner;
    if (inner == 1) {
      pairwise(x + row, y, out + row, len);
      continue;
    }
    for (int64_t i = 0; i < len; ++i) {
      const int64_t at = row + i * inner;
      if (kind == Kind::kAdd) {
        st.loops.add_one(x + at, y[i], out + at, inner);
      } else {
        st.loops.scale(x + at, y[i], 0.0f, out + at, inner);
      }
    }
  }
}

template <Kind kind>
void Combine(const State& st, const float* x, const float* y, float* out) {
  const auto& [outer, len, inner] = st.s;
  const int parts = PartsFor(st.threads, st.numel() / 2);
  // X and Y have the same shape, so the threads may split the work between any elements.
  if (outer == 1 && inner == 1) {
    ParallelFor(parts, len, [&](int, int64_t begin, int64_t end) {
      (kind == Kind::kAdd ? st.loops.add : st.loops.mul)(x + begin, y + begin, out + begin,
                                                         end - begin);
    });
    return;
  }
  const int64_t row = st.s.len * st.s.inner;
  ParallelFor(parts, outer, [&](int, int64_t begin, int64_t end) {
    CombineRows<kind>(st, end - begin, x + begin * row, y, out + begin * row);
  });
}

template <Kind kind>
Status Run(State& st, const KernelArgs& args) {
  Combine<kind>(st, InF32(args, 0), InF32(args, 1), OutF32(args, 0));
  return OkStatus();
}

Status RunAddGrad(State& st, const KernelArgs& args) {
  const float* g = InF32(args, 2);
  if (float* gx = OutF32(args, 0)) {
    ParallelCopy(st.threads, gx, g, st.numel() * sizeof(float));
  }
  if (float* gy = OutF32(args, 1)) SumRepeats(st.loops, st.s, g, gy);
  return OkStatus();
}

Status RunMulGrad(State& st, const KernelArgs& args) {
  const float *x = InF32(args, 0), *y = InF32(args, 1), *g = InF32(args, 2);
  if (float* gy = OutF32(args, 1)) {
    float* product = static_cast<float*>(args.scratch);
    st.loops.mul(x, g, product, st.numel());
    SumRepeats(st.loops, st.s, product, gy);
  }
  if (float* gx = OutF32(args, 0)) Combine<Kind::kMul>(st, g, y, gx);
  return OkStatus();
}

// ---- Subtraction, division, maximum -------------------------------------------------------------

struct MathState {
  const Loops& loops;
  BroadcastShape s;
  MathLoops::PairFn combine;
  // Loops for the gradients of X and Y. nullptr: the gradients are g and -g.
  MathLoops::PairGradFn grad_x, grad_y;
};

// Calls run(at, y, n) for one part of X after another. The part contains n elements, starting at
// position `at`. `y` points to n elements of Y, which are combined with these elements of X.
template <typename Run>
void ForEachRun(const BroadcastShape& s, const float* y, const Run& run) {
  constexpr int64_t kRun = 256;
  float repeated[kRun];
  for (int64_t o = 0; o < s.outer; ++o) {
    if (s.inner == 1) {
      run(o * s.len, y, s.len);
      continue;
    }
    for (int64_t i = 0; i < s.len; ++i) {
      const int64_t begin = (o * s.len + i) * s.inner;
      std::fill_n(repeated, std::min(kRun, s.inner), y[i]);
      for (int64_t j = 0; j < s.inner; j += kRun) {
        run(begin + j, repeated, std::min(kRun, s.inner - j));
      }
    }
  }
}

Status RunMath(MathState& st, const KernelArgs& args) {
  const float* x = InF32(args, 0);
  float* out = OutF32(args, 0);
  ForEachRun(st.s, InF32(args, 1),
             [&](int64_t at, const float* y, int64_t n) { st.combine(x + at, y, out + at, n); });
  return OkStatus();
}

Status RunMathGrad(MathState& st, const KernelArgs& args) {
  const float *x = InF32(args, 0), *g = InF32(args, 2);
  const auto part = [&](MathLoops::PairGradFn grad, float* to) {
    ForEachRun(st.s, InF32(args, 1),
               [&](int64_t at, const float* y, int64_t n) { grad(x + at, y, g + at, to + at, n); });
  };
  if (float* gy = OutF32(args, 1)) {
    auto* scratch = static_cast<float*>(args.scratch);
    if (st.grad_y != nullptr) part(st.grad_y, scratch);
    SumRepeats(st.loops, st.s, st.grad_y != nullptr ? scratch : g, gy);
    if (st.grad_y == nullptr) st.loops.scale(gy, -1.0f, 0.0f, gy, st.s.len);
  }
  if (float* gx = OutF32(args, 0)) {
    const int64_t n = st.s.outer * st.s.len * st.s.inner;
    if (st.grad_x != nullptr) {
      part(st.grad_x, gx);
    } else if (gx != g && n > 0) {
      std::memcpy(gx, g, n * sizeof(float));
    }
  }
  return OkStatus();
}

enum class Math { kSub, kDiv, kMax };

template <Math math, Status (*Body)(MathState&, const KernelArgs&)>
StatusOr<Kernel> PrepareMath(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const BroadcastShape s, BroadcastShapeOf(view));
  TD_REQUIRE(s.outer * s.len * s.inner == view.in(0).shape.numel());
  TD_REQUIRE(s.len == view.in(1).shape.numel());
  const MathLoops& m = BestMathLoops();
  const MathState state = math == Math::kSub ? MathState{BestLoops(), s, m.sub, nullptr, nullptr}
                          : math == Math::kDiv
                              ? MathState{BestLoops(), s, m.div, m.div_grad_x, m.div_grad_y}
                              : MathState{BestLoops(), s, m.max, m.max_grad_x, m.max_grad_y};
  const bool scratch = Body == RunMathGrad && state.grad_y != nullptr && view.has_out(1);
  return MakeKernel<MathState, Body>(state, scratch ? view.in(0).bytes() : 0);
}

template <Status (*Body)(State&, const KernelArgs&), bool scratch>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const BroadcastShape s, BroadcastShapeOf(view));
  TD_REQUIRE(s.outer * s.len * s.inner == view.in(0).shape.numel());
  TD_REQUIRE(s.len == view.in(1).shape.numel());
  return MakeKernel<State, Body>({BestLoops(), s, ctx.threads}, scratch ? view.in(0).bytes() : 0);
}

}  // namespace

void SumRepeats(const Loops& loops, const BroadcastShape& s, const float* g, float* gy) {
  const auto& [outer, len, inner] = s;
  if (inner == 1) {
    loops.sum_rows(g, gy, outer, len);
    return;
  }
  for (int64_t i = 0; i < len; ++i) {
    float total = 0.0f;
    for (int64_t o = 0; o < outer; ++o) total += loops.sum(g + (o * len + i) * inner, inner);
    gy[i] = total;
  }
}

constinit const KernelList kElementwiseAddCpu = {
    {"vector", OrWidened<Prepare<Run<Kind::kAdd>, false>>}};
constinit const KernelList kElementwiseMulCpu = {
    {"vector", OrWidened<Prepare<Run<Kind::kMul>, false>>}};
constinit const KernelList kElementwiseAddGradCpu = {
    {"vector", OrWidened<Prepare<RunAddGrad, false>>}};
constinit const KernelList kElementwiseMulGradCpu = {
    {"vector", OrWidened<Prepare<RunMulGrad, true>>}};
constinit const KernelList kElementwiseSubCpu = {
    {"vector", OrWidened<PrepareMath<Math::kSub, RunMath>>}};
constinit const KernelList kElementwiseSubGradCpu = {
    {"vector", OrWidened<PrepareMath<Math::kSub, RunMathGrad>>}};
constinit const KernelList kElementwiseDivCpu = {
    {"vector", OrWidened<PrepareMath<Math::kDiv, RunMath>>}};
constinit const KernelList kElementwiseDivGradCpu = {
    {"vector", OrWidened<PrepareMath<Math::kDiv, RunMathGrad>>}};
constinit const KernelList kElementwiseMaxCpu = {
    {"vector", OrWidened<PrepareMath<Math::kMax, RunMath>>}};
constinit const KernelList kElementwiseMaxGradCpu = {
    {"vector", OrWidened<PrepareMath<Math::kMax, RunMathGrad>>}};

}  // namespace tandem::ops
