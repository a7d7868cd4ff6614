#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/formulas/step_state.h"

namespace tandem::ops {
namespace {

constexpr int kPartsMax = 64;
// Number of elements per piece. A piece is checked first, and is still in the L1 cache when its
// elements are scaled.
constexpr int64_t kPiece = 4096;

struct CheckState {
  const Loops& loops;
  std::vector<int64_t> sizes;
  int parts;
};

// Returns true if all elements of x are finite. All exponent bits of an infinity or a NaN are set.
bool AllFinite(const float* x, int64_t n) {
  constexpr uint32_t kExponent = 0x7F800000;
  uint32_t bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    bad |= (std::bit_cast<uint32_t>(x[i]) & kExponent) == kExponent ? 1u : 0u;
  }
  return bad == 0;
}

Status RunCheck(CheckState& s, const KernelArgs& args) {
  const float factor = 1.0f / *InF32(args, 0);
  bool finite = true;
  for (size_t t = 0; t < s.sizes.size(); ++t) {
    const float* x = InF32(args, static_cast<int>(t) + 1);
    float* out = OutF32(args, static_cast<int>(t) + 1);
    std::array<bool, kPartsMax> good;
    const int parts = std::min(s.parts, PartsFor(s.parts, s.sizes[t]));
    ParallelFor(parts, s.sizes[t], [&](int part, int64_t begin, int64_t end) {
      bool all = true;
      for (int64_t at = begin; at < end; at += kPiece) {
        const int64_t n = std::min(kPiece, end - at);
        all &= AllFinite(x + at, n);
        s.loops.scale(x + at, factor, 0.0f, out + at, n);
      }
      good[static_cast<size_t>(part)] = all;
    });
    finite &= std::all_of(good.begin(), good.begin() + parts, [](bool all) { return all; });
  }
  *OutF32(args, 0) = finite ? 1.0f : 0.0f;
  return OkStatus();
}

StatusOr<Kernel> PrepareCheck(const OpView& view, const PrepareContext& ctx) {
  TD_REQUIRE(view.in(0).shape.numel() == 1);
  CheckState state{BestLoops(), {}, std::clamp(ctx.threads, 1, kPartsMax)};
  for (size_t i = 1; i < view.in_count(); ++i) state.sizes.push_back(view.in(i).shape.numel());
  return MakeKernel<CheckState, RunCheck>(std::move(state));
}

Status RunUpdate(LossScalingRule& rule, const KernelArgs& args) {
  const LossScaling next =
      rule.Next(*InF32(args, 0) != 0.0f, {*InF32(args, 1), *InF32(args, 2), *InF32(args, 3)});
  *OutF32(args, 0) = next.scale;
  *OutF32(args, 1) = next.good;
  *OutF32(args, 2) = next.bad;
  return OkStatus();
}

StatusOr<Kernel> PrepareUpdate(const OpView& view, const PrepareContext&) {
  return MakeKernel<LossScalingRule, RunUpdate>(LossScalingRuleOf(view));
}

}  // namespace

constinit const KernelList kCheckFiniteAndUnscaleCpu = {{"vector", PrepareCheck}};
constinit const KernelList kUpdateLossScalingCpu = {{"plain", PrepareUpdate}};

}  // namespace tandem::ops
