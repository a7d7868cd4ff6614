// The code of the optimizers' loops. Each update_loops_<isa>.cc includes this file once. As in
// loops_code.h, everything has internal linkage, and the code calls no inline function with
// external linkage.
#ifndef TANDEM_UPDATE_LOOPS
#error "include this from update_loops_<isa>.cc alone"
#endif
#include "kernels/ops/cpu/update_loops.h"
#include "kernels/ops/cpu/vector_code.h"
#include "kernels/ops/formulas/update.h"

namespace tandem::ops {
namespace {

// Runs an optimizer step over one run of elements. `args` is copied to a local variable, so that
// the compiler knows that writes to the outputs do not change the arguments.
template <typename Formula>
void UpdateLoop(const UpdateArgs& args, const UpdateRun& r) {
  constexpr int kSlots = Formula::kSlots;
  const UpdateArgs a = args;
  const float *p = r.p, *g = r.g, *s0 = r.s[0], *s1 = r.s[1], *s2 = r.s[2];
  float *po = r.po, *so0 = r.so[0], *so1 = r.so[1], *so2 = r.so[2];
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < r.n; ++i) {
    UpdateElement e;
    e.p = p[i];
    e.g = g[i];
    if constexpr (kSlots > 0) e.s[0] = s0[i];
    if constexpr (kSlots > 1) e.s[1] = s1[i];
    if constexpr (kSlots > 2) e.s[2] = s2[i];
    Formula::Step(a, e);
    po[i] = e.p;
    if constexpr (kSlots > 0) so0[i] = e.s[0];
    if constexpr (kSlots > 1) so1[i] = e.s[1];
    if constexpr (kSlots > 2) so2[i] = e.s[2];
  }
}

void Momentum(const UpdateArgs& args, const UpdateRun& r) {
  args.nesterov ? UpdateLoop<MomentumStep<true>>(args, r)
                : UpdateLoop<MomentumStep<false>>(args, r);
}

void Rmsprop(const UpdateArgs& args, const UpdateRun& r) {
  r.s[2] != nullptr ? UpdateLoop<RmspropStep<true>>(args, r)
                    : UpdateLoop<RmspropStep<false>>(args, r);
}

void RegularizeLoop(const float* p, const float* g, float l1, float l2, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = Regularize::Of(p[i], g[i], l1, l2);
}

void ClipLoop(const float* x, float low, float high, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = Clip::Of(x[i], low, high);
}

float SumSquares(const float* x, int64_t n) {
  constexpr int64_t kLanes = 16;
  float lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lane[l] += x[i + l] * x[i + l];
  }
  for (int64_t l = 0; i < n; ++i, ++l) lane[l] += x[i] * x[i];
  float total = 0.0f;
  for (int64_t l = 0; l < kLanes; ++l) total += lane[l];
  return total;
}

}  // namespace

const UpdateLoops TANDEM_UPDATE_LOOPS = {
    .sgd = UpdateLoop<SgdStep>,
    .momentum = Momentum,
    .adam = UpdateLoop<AdamStep>,
    .adagrad = UpdateLoop<AdagradStep>,
    .decayed_adagrad = UpdateLoop<DecayedAdagradStep>,
    .adamax = UpdateLoop<AdamaxStep>,
    .rmsprop = Rmsprop,
    .ftrl = UpdateLoop<FtrlStep>,
    .lars = UpdateLoop<LarsStep>,
    .lamb = UpdateLoop<LambStep>,
    .regularize = RegularizeLoop,
    .clip = ClipLoop,
    .sum_squares = SumSquares,
};

}  // namespace tandem::ops
