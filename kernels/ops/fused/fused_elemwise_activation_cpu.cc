#include <cstring>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/fused/fused_elemwise_activation.h"

namespace tandem::ops {
namespace {

// Number of elements per piece. The sums of a piece are still in the L1 cache when the activation
// reads them.
constexpr int64_t kPiece = 2048;

struct State {
  const Loops& loops;
  FusedAdd op;
  BroadcastShape s;
  int parts;
  int64_t numel() const { return s.outer * s.len * s.inner; }
};

void Activate(const State& st, const float* x, float* out, int64_t n) {
  if (st.op.act == FusedAct::kRelu) {
    st.loops.relu(x, out, n);
  } else {
    st.loops.scale(x, st.op.scale, 0.0f, out, n);
  }
}

void ActivateGrad(const State& st, const float* out, const float* g, float* gx, int64_t n) {
  if (st.op.act == FusedAct::kRelu) {
    st.loops.relu_grad(out, g, gx, n);
  } else {
    st.loops.scale(g, st.op.scale, 0.0f, gx, n);
  }
}

// Computes the sums of n elements of X and Y (a piece of a run). `y` points to n elements, or to
// one element if inner != 1.
void AddPiece(const State& st, const float* x, const float* y, float* out, int64_t n) {
  if (st.s.inner != 1) {
    st.loops.add_one(x, *y, out, n);
  } else {
    st.loops.add(x, y, out, n);
  }
  if (!st.op.act_first) Activate(st, out, out, n);
}

Status Run(State& st, const KernelArgs& args) {
  const float *x = InF32(args, 0), *y = InF32(args, 1);
  float* out = OutF32(args, 0);
  const int64_t outer = st.s.outer, len = st.s.len, inner = st.s.inner;
  if (st.op.act_first) {
    float* acted = static_cast<float*>(args.scratch);
    Activate(st, y, acted, len);
    y = acted;
  }
  // X is split into runs. With inner == 1, a run is a row of X and uses all elements of Y.
  // Otherwise a run has `inner` elements, which all use the same element of Y.
  const int64_t run = inner != 1 ? inner : len, runs = inner != 1 ? outer * len : outer;
  const int64_t pieces = (run + kPiece - 1) / kPiece;
  ParallelFor(st.parts, runs * pieces, [&](int, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t r = i / pieces, from = i % pieces * kPiece;
      const int64_t at = r * run + from;
      const float* other = inner != 1 ? y + r % len : y + from;
      AddPiece(st, x + at, other, out + at, std::min(kPiece, run - from));
    }
  });
  return OkStatus();
}

// Computes the gradients of act(X + Y). The gradient of Y is the gradient of X, summed over the
// broadcast.
Status RunGradOuter(const State& st, const KernelArgs& args) {
  const float *out = InF32(args, 0), *g = InF32(args, 2);
  float* gx = OutF32(args, 0);
  if (gx == nullptr) gx = static_cast<float*>(args.scratch);
  ParallelFor(st.parts, st.numel(), [&](int, int64_t begin, int64_t end) {
    ActivateGrad(st, out + begin, g + begin, gx + begin, end - begin);
  });
  if (float* gy = OutF32(args, 1)) SumRepeats(st.loops, st.s, gx, gy);
  return OkStatus();
}

// Computes the gradients of X + act(Y). The sign of Y replaces that of relu(Y): Y > 0 exactly if
// relu(Y) > 0.
Status RunGradInner(const State& st, const KernelArgs& args) {
  const float *y = InF32(args, 1), *g = InF32(args, 2);
  if (float* gy = OutF32(args, 1)) {
    SumRepeats(st.loops, st.s, g, gy);
    ActivateGrad(st, y, gy, gy, st.s.len);
  }
  if (float* gx = OutF32(args, 0); gx != nullptr && gx != g) {
    std::memcpy(gx, g, static_cast<size_t>(st.numel()) * sizeof(float));
  }
  return OkStatus();
}

Status RunGrad(State& st, const KernelArgs& args) {
  return st.op.act_first ? RunGradInner(st, args) : RunGradOuter(st, args);
}

StatusOr<State> StateOf(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const FusedAdd op, FusedAddOf(view));
  TD_ASSIGN_OR_RETURN(const BroadcastShape s, BroadcastShapeOf(view));
  TD_REQUIRE(s.outer * s.len * s.inner == view.in(0).shape.numel());
  return State{BestLoops(), op, s, PartsFor(ctx.threads, view.in(0).shape.numel())};
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(State state, StateOf(view, ctx));
  const size_t scratch = state.op.act_first ? view.in(1).bytes() : 0;
  return MakeKernel<State, Run>(std::move(state), scratch);
}

StatusOr<Kernel> PrepareGrad(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(State state, StateOf(view, ctx));
  const bool needs = !state.op.act_first && !view.has_out(0);
  return MakeKernel<State, RunGrad>(std::move(state), needs ? view.in(0).bytes() : 0);
}

}  // namespace

constinit const KernelList kFusedElemwiseActivationCpu = {{"vector", OrWidened<Prepare>}};
constinit const KernelList kFusedElemwiseActivationGradCpu = {{"vector", OrWidened<PrepareGrad>}};

}  // namespace tandem::ops
