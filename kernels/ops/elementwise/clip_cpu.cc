#include <cmath>

#include "common/base/require.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/cpu/square_sum.h"
#include "kernels/ops/cpu/update_loops.h"

namespace tandem::ops {
namespace {

struct ClipState {
  float min, max;
  int64_t n;
  int parts;
};

Status RunClip(ClipState& s, const KernelArgs& args) {
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    BestUpdateLoops().clip(InF32(args, 0) + begin, s.min, s.max, OutF32(args, 0) + begin,
                           end - begin);
  });
  return OkStatus();
}

Status RunClipGrad(ClipState& s, const KernelArgs& args) {
  const float *x = InF32(args, 0), *g = InF32(args, 1);
  float* out = OutF32(args, 0);
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = x[i] < s.min || x[i] > s.max ? 0.0f : g[i];
  });
  return OkStatus();
}

template <Status (*Body)(ClipState&, const KernelArgs&)>
StatusOr<Kernel> PrepareClip(const OpView& view, const PrepareContext& ctx) {
  const int64_t n = view.in(0).shape.numel();
  TD_REQUIRE(view.out(0).shape.numel() == n);
  return MakeKernel<ClipState, Body>(
      {AttrF32(view, "min"), AttrF32(view, "max"), n, PartsFor(ctx.threads, n)});
}

struct NormState {
  float max_norm;
  std::vector<int64_t> sizes;
  std::vector<SquareSum> squares;
  std::vector<int> parts;
};

// Scales all inputs by one factor, so that the 2-norm of all inputs together is at most max_norm.
Status RunByNorm(NormState& s, const KernelArgs& args) {
  double total = 0;
  for (size_t i = 0; i < s.sizes.size(); ++i) {
    total += s.squares[i].Run(InF32(args, static_cast<int>(i)), args.scratch);
  }
  const auto norm = static_cast<float>(std::sqrt(total));
  const float scale = norm > s.max_norm ? s.max_norm / norm : 1.0f;
  for (size_t i = 0; i < s.sizes.size(); ++i) {
    const int at = static_cast<int>(i);
    ParallelFor(s.parts[i], s.sizes[i], [&](int, int64_t begin, int64_t end) {
      BestLoops().scale(InF32(args, at) + begin, scale, 0.0f, OutF32(args, at) + begin,
                        end - begin);
    });
  }
  return OkStatus();
}

StatusOr<Kernel> PrepareByNorm(const OpView& view, const PrepareContext& ctx) {
  NormState s{AttrF32(view, "max_norm"), {}, {}, {}};
  size_t scratch = 0;
  for (size_t i = 0; i < view.in_count(); ++i) {
    s.sizes.push_back(view.in(i).shape.numel());
    TD_REQUIRE(view.out(i).shape == view.in(i).shape);
    s.parts.push_back(PartsFor(ctx.threads, s.sizes[i]));
    s.squares.emplace_back(s.sizes[i], s.parts[i]);
    scratch = std::max(scratch, s.squares[i].scratch_bytes());
  }
  return MakeKernel<NormState, RunByNorm>(std::move(s), scratch);
}

}  // namespace

constinit const KernelList kClipCpu = {{"vector", PrepareClip<RunClip>}};
constinit const KernelList kClipGradCpu = {{"plain", PrepareClip<RunClipGrad>}};
constinit const KernelList kClipByNormCpu = {{"vector", PrepareByNorm}};
constinit const KernelList kClipByGlobalNormCpu = {{"vector", PrepareByNorm}};

}  // namespace tandem::ops
