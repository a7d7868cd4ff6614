#include <cstring>

#include "kernels/ops/cpu_args.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/loops.h"
#include "kernels/ops/op_defs.h"

namespace tandem {
namespace {

enum class Kind { kAdd, kMul };

struct State {
  const Loops& loops;
  BroadcastShape s;
  int64_t numel() const { return s.outer * s.len * s.inner; }
};

// One combination of a row of X with Y: Y repeated over `inner` elements each.
template <Kind kind>
void Combine(const State& st, const float* x, const float* y, float* out) {
  const auto& [outer, len, inner] = st.s;
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
Status Run(State& st, const KernelArgs& args) {
  Combine<kind>(st, InF32(args, 0), InF32(args, 1), OutF32(args, 0));
  return OkStatus();
}

Status RunAddGrad(State& st, const KernelArgs& args) {
  const float* g = InF32(args, 2);
  if (float* gx = OutF32(args, 0); gx != nullptr && gx != g) {
    std::memcpy(gx, g, st.numel() * sizeof(float));
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

template <Status (*Body)(State&, const KernelArgs&), bool scratch>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const BroadcastShape s, BroadcastShapeOf(view));
  return MakeKernel<State, Body>({BestLoops(), s}, scratch ? view.in(0).bytes() : 0);
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

std::vector<KernelImpl> ElementwiseAddCpu() {
  return {{"vector", Prepare<Run<Kind::kAdd>, false>}};
}
std::vector<KernelImpl> ElementwiseMulCpu() {
  return {{"vector", Prepare<Run<Kind::kMul>, false>}};
}
std::vector<KernelImpl> ElementwiseAddGradCpu() { return {{"vector", Prepare<RunAddGrad, false>}}; }
std::vector<KernelImpl> ElementwiseMulGradCpu() { return {{"vector", Prepare<RunMulGrad, true>}}; }

}  // namespace tandem
