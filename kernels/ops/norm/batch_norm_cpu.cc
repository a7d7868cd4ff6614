#include "kernels/ops/norm/batch_norm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/norm/batch_norm_rows.h"
#include "kernels/ops/norm/norm_loops.h"

namespace tandem::ops {
namespace {

constexpr int64_t kLanes = NormLoops::kLanes;
using Lanes = std::array<float, kLanes>;

struct State {
  BatchNormShape s;
  float momentum, epsilon;
  bool is_test, relu;
  const NormLoops& loops;
  int parts;
  int64_t rank = 0, ranks = 1;  // attributes of batch_norm_moments

  // Number of channels that are processed together (a group): 16 interleaved channels, or one.
  int64_t width() const { return s.blocked() ? kLanes : 1; }
  // RunAt returns the offset of channels [first, first + width) in image `n`. run() returns their
  // number of elements in one image.
  int64_t RunAt(int64_t n, int64_t first) const { return (n * s.channels + first) * s.plane; }
  int64_t run() const { return s.plane * width(); }
};

// Spread copies the value of each channel of a group to the channel's lanes. Gather adds up the
// values of each channel's lanes.
Lanes Spread(const State& st, const float* per_channel) {
  Lanes lanes;
  for (int64_t l = 0; l < kLanes; ++l) lanes[l] = per_channel[st.s.blocked() ? l : 0];
  return lanes;
}
using Sums = std::array<double, kLanes>;
Sums Gather(const State& st, const Lanes& lanes) {
  Sums sums{};
  for (int64_t l = 0; l < kLanes; ++l) sums[st.s.blocked() ? l : 0] += double{lanes[l]};
  return sums;
}

struct Moments {
  Lanes mean{}, variance{};  // values by channel of the group
};

// Computes the moments of a group of channels, plane after plane. Each plane is read twice while it
// is in the cache. The results of the planes are joined as in Chan, Golub and LeVeque, "Updating
// Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979. No cancellation occurs,
// even if the mean is far from 0.
Moments MomentsOf(const State& st, const float* x, int64_t first) {
  const auto plane = static_cast<double>(st.s.plane);
  double count = 0;
  Sums mean{}, m2{};
  for (int64_t n = 0; n < st.s.batch; ++n) {
    const float* run = x + st.RunAt(n, first);
    Lanes sum, center;
    st.loops.sums(run, st.run(), sum.data());
    Sums plane_mean = Gather(st, sum);
    for (int64_t c = 0; c < kLanes; ++c) {
      plane_mean[c] /= plane;
      center[c] = static_cast<float>(plane_mean[c]);
    }
    st.loops.squares(run, Spread(st, center.data()).data(), st.run(), sum.data());
    const Sums plane_m2 = Gather(st, sum);
    for (int64_t c = 0; c < kLanes; ++c) {
      const double delta = plane_mean[c] - mean[c], total = count + plane;
      mean[c] += delta * plane / total;
      m2[c] += plane_m2[c] + delta * delta * count * plane / total;
    }
    count += plane;
  }
  Moments moments;
  for (int64_t c = 0; c < kLanes; ++c) {
    moments.mean[c] = static_cast<float>(mean[c]);
    moments.variance[c] = static_cast<float>(m2[c] / count);
  }
  return moments;
}

// Writes the statistics of channels [first, first + width). Returns, by channel, the factors by
// which x is multiplied.
Lanes Statistics(const State& st, const KernelArgs& args, int64_t first) {
  const float *mean_in = InF32(args, 3) + first, *variance_in = InF32(args, 4) + first;
  float *mean_out = OutF32(args, 1) + first, *variance_out = OutF32(args, 2) + first;
  const Moments batch = st.is_test ? Moments{} : MomentsOf(st, InF32(args, 0), first);
  Lanes scale{};
  for (int64_t c = 0; c < st.width(); ++c) {
    const float mean = st.is_test ? mean_in[c] : batch.mean[c];
    const float variance = st.is_test ? variance_in[c] : batch.variance[c];
    mean_out[c] = st.is_test ? mean : AdvanceStatistic(st.momentum, mean_in[c], mean);
    variance_out[c] =
        st.is_test ? variance : AdvanceStatistic(st.momentum, variance_in[c], variance);
    const float inv_std = 1.0f / std::sqrt(variance + st.epsilon);
    OutF32(args, 3)[first + c] = mean;
    OutF32(args, 4)[first + c] = inv_std;
    scale[c] = InF32(args, 1)[first + c] * inv_std;
  }
  return scale;
}

void Group(const State& st, const KernelArgs& args, int64_t first) {
  const Lanes scale = Spread(st, Statistics(st, args, first).data());
  const Lanes mean = Spread(st, OutF32(args, 3) + first);
  const Lanes bias = Spread(st, InF32(args, 2) + first);
  const float* z = st.relu ? InF32(args, 5) : nullptr;
  for (int64_t n = 0; n < st.s.batch; ++n) {
    const int64_t at = st.RunAt(n, first);
    st.loops.apply({.x = InF32(args, 0) + at,
                    .z = z == nullptr ? nullptr : z + at,
                    .mean = mean.data(),
                    .scale = scale.data(),
                    .bias = bias.data(),
                    .relu = st.relu,
                    .y = OutF32(args, 0) + at},
                   st.run());
  }
}

// Sums of g' and of g' (x - mean) over `count` elements, for a group of channels. g' is the
// gradient of Y, or 0 where relu is 0.
struct GradSums {
  Sums g{}, gx{};
  double count = 0;
};

GradSums GradSumsOf(const State& st, NormLoops::Grad grad, int64_t first) {
  const NormLoops::Grad begin = grad;
  GradSums sums;
  sums.count = static_cast<double>(st.s.batch * st.s.plane);
  for (int64_t n = 0; n < st.s.batch; ++n) {
    const int64_t at = st.RunAt(n, first);
    grad.x = begin.x + at;
    grad.y = begin.y == nullptr ? nullptr : begin.y + at;
    grad.g = begin.g + at;
    Lanes g, gx;
    st.loops.grad_sums(grad, st.run(), g.data(), gx.data());
    const Sums more_g = Gather(st, g), more_gx = Gather(st, gx);
    for (int64_t c = 0; c < kLanes; ++c) {
      sums.g[c] += more_g[c];
      sums.gx[c] += more_gx[c];
    }
  }
  return sums;
}

// Returns the sums over all ranks from input Sums (`given`). If `given` is nullptr, returns `own`.
GradSums SumsOfAll(const State& st, const float* given, int64_t first, const GradSums& own) {
  if (given == nullptr) return own;
  GradSums all;
  all.count = static_cast<double>(given[0]) * static_cast<double>(st.s.plane);
  for (int64_t c = 0; c < st.width(); ++c) {
    all.g[c] = given[1 + first + c];
    all.gx[c] = given[1 + st.s.channels + first + c];
  }
  return all;
}

void GroupGrad(const State& st, const KernelArgs& args, int64_t first) {
  const float *inv_std = InF32(args, 3) + first, *weight = InF32(args, 1) + first;
  const Lanes mean = Spread(st, InF32(args, 2) + first);
  NormLoops::Grad grad{.x = InF32(args, 0),
                       .y = st.relu ? InF32(args, 5) : nullptr,
                       .g = InF32(args, 4),
                       .mean = mean.data()};
  const GradSums sums = GradSumsOf(st, grad, first);
  const GradSums all = SumsOfAll(st, InF32(args, st.relu ? 6 : 5), first, sums);
  Lanes scale{}, mean_g{}, slope{};
  for (int64_t c = 0; c < st.width(); ++c) {
    if (float* gscale = OutF32(args, 1)) {
      gscale[first + c] = static_cast<float>(sums.gx[c] * inv_std[c]);
    }
    if (float* gbias = OutF32(args, 2)) gbias[first + c] = static_cast<float>(sums.g[c]);
    scale[c] = weight[c] * inv_std[c];
    if (st.is_test) continue;  // in evaluation the statistics are constants
    mean_g[c] = static_cast<float>(all.g[c] / all.count);
    slope[c] = static_cast<float>(all.gx[c] * inv_std[c] * inv_std[c] / all.count);
  }
  const Lanes scales = Spread(st, scale.data()), means_g = Spread(st, mean_g.data());
  const Lanes slopes = Spread(st, slope.data());
  grad.scale = scales.data();
  grad.mean_g = means_g.data();
  grad.slope = slopes.data();
  float *gx = OutF32(args, 0), *gz = st.relu ? OutF32(args, 3) : nullptr;
  for (int64_t n = 0; n < st.s.batch; ++n) {
    const int64_t at = st.RunAt(n, first);
    grad.x = InF32(args, 0) + at;
    grad.y = st.relu ? InF32(args, 5) + at : nullptr;
    grad.g = InF32(args, 4) + at;
    grad.gx = gx == nullptr ? nullptr : gx + at;
    grad.gz = gz == nullptr ? nullptr : gz + at;
    st.loops.grad(grad, st.run());
  }
}

void GroupMoments(const State& st, const KernelArgs& args, int64_t first) {
  const Moments moments = MomentsOf(st, InF32(args, 0), first);
  const int64_t columns = 2 * st.s.channels + 1;
  float* const row = OutF32(args, 0) + st.rank * columns;
  // The call for the first channels also writes the number of samples, and zeros to the rows of the
  // other ranks.
  if (first == 0) {
    std::fill(OutF32(args, 0), row, 0.0f);
    std::fill(row + columns, OutF32(args, 0) + st.ranks * columns, 0.0f);
    row[0] = static_cast<float>(st.s.batch);
  }
  for (int64_t c = 0; c < st.width(); ++c) {
    row[1 + first + c] = moments.mean[c];
    row[1 + st.s.channels + first + c] = moments.variance[c];
  }
}

void GroupGradSums(const State& st, const KernelArgs& args, int64_t first) {
  const Lanes mean = Spread(st, InF32(args, 1) + first);
  const GradSums sums = GradSumsOf(
      st, {.x = InF32(args, 0), .y = InF32(args, 3), .g = InF32(args, 2), .mean = mean.data()},
      first);
  float* const out = OutF32(args, 0);
  if (first == 0) out[0] = static_cast<float>(st.s.batch);
  for (int64_t c = 0; c < st.width(); ++c) {
    out[1 + first + c] = static_cast<float>(sums.g[c]);
    out[1 + st.s.channels + first + c] = static_cast<float>(sums.gx[c]);
  }
}

// Calls Body for each group of channels. One thread runs a whole group in a fixed order.
template <void (*Body)(const State&, const KernelArgs&, int64_t)>
Status Run(State& st, const KernelArgs& args) {
  const int64_t width = st.width();
  ParallelFor(st.parts, st.s.channels / width, [&](int, int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) Body(st, args, g * width);
  });
  return OkStatus();
}

template <void (*Body)(const State&, const KernelArgs&, int64_t), bool kRelu>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const BatchNormShape s, BatchNormShapeOf(view));
  TD_REQUIRE(s.batch * s.channels * s.plane == view.in(0).shape.numel());
  if (s.layout == ImageLayout::kLast)
    return Unimplemented("this kernel does not support layout %s, expected NCHW or nChw16c",
                         view.attr<std::string>("data_layout"));
  return MakeKernel<State, Run<Body>>({s, static_cast<float>(view.attr<double>("momentum")),
                                       static_cast<float>(view.attr<double>("epsilon")),
                                       view.attr<bool>("is_test"), kRelu, BestNormLoops(),
                                       PartsFor(ctx.threads, view.in(0).shape.numel())});
}

StatusOr<Kernel> PrepareMoments(const OpView& view, const PrepareContext& ctx) {
  TD_REQUIRE(view.attr<int64_t>("rank") >= 0);
  TD_REQUIRE(view.attr<int64_t>("rank") < view.attr<int64_t>("ranks"));
  TD_ASSIGN_OR_RETURN(const BatchNormShape s, BatchNormShapeOf(view));
  if (s.layout == ImageLayout::kLast)
    return Unimplemented("this kernel does not support layout %s, expected NCHW or nChw16c",
                         view.attr<std::string>("data_layout"));
  return MakeKernel<State, Run<GroupMoments>>(
      {s, 0, 0, false, false, BestNormLoops(), PartsFor(ctx.threads, view.in(0).shape.numel()),
       view.attr<int64_t>("rank"), view.attr<int64_t>("ranks")});
}

StatusOr<Kernel> PrepareGradSums(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const BatchNormShape s, BatchNormShapeOf(view));
  if (s.layout == ImageLayout::kLast)
    return Unimplemented("this kernel does not support layout %s, expected NCHW or nChw16c",
                         view.attr<std::string>("data_layout"));
  return MakeKernel<State, Run<GroupGradSums>>(
      {s, 0, 0, false, false, BestNormLoops(), PartsFor(ctx.threads, view.in(0).shape.numel())});
}

struct MergeState {
  int64_t ranks, channels;
  float momentum;
};

Status Merge(MergeState& st, const KernelArgs& args) {
  const int64_t columns = 2 * st.channels + 1;
  for (int64_t c = 0; c < st.channels; ++c) {
    JoinedMoments joined;
    for (int64_t r = 0; r < st.ranks; ++r) {
      const float* row = InF32(args, 0) + r * columns;
      joined.Add(row[0], row[1 + c], row[1 + st.channels + c]);
    }
    const auto batch_mean = static_cast<float>(joined.mean);
    const auto batch_variance = static_cast<float>(joined.m2 / joined.count);
    const float running_mean = InF32(args, 1)[c], running_variance = InF32(args, 2)[c];
    OutF32(args, 0)[c] = batch_mean;
    OutF32(args, 1)[c] = batch_variance;
    OutF32(args, 2)[c] = AdvanceStatistic(st.momentum, running_mean, batch_mean);
    OutF32(args, 3)[c] = AdvanceStatistic(st.momentum, running_variance, batch_variance);
  }
  return OkStatus();
}

StatusOr<Kernel> PrepareMerge(const OpView& view, const PrepareContext&) {
  TD_REQUIRE(view.in(0).shape.rank() >= 1 && view.in(1).shape.rank() == 1);
  return MakeKernel<MergeState, Merge>({view.in(0).shape[0], view.in(1).shape[0],
                                        static_cast<float>(view.attr<double>("momentum"))});
}

}  // namespace

constinit const KernelList kBatchNormCpu = {{"rows", NativeOrWidened<PrepareRowsBatchNorm>},
                                            {"vector", OrWidened<Prepare<Group, false>>}};
constinit const KernelList kBatchNormGradCpu = {{"rows", NativeOrWidened<PrepareRowsBatchNormGrad>},
                                                {"vector", OrWidened<Prepare<GroupGrad, false>>}};
constinit const KernelList kFusedBnAddActivationCpu = {
    {"rows", NativeOrWidened<PrepareRowsBatchNorm>}, {"vector", OrWidened<Prepare<Group, true>>}};
constinit const KernelList kFusedBnAddActivationGradCpu = {
    {"rows", NativeOrWidened<PrepareRowsBatchNormGrad>},
    {"vector", OrWidened<Prepare<GroupGrad, true>>}};

constinit const KernelList kBatchNormMomentsCpu = {{"vector", PrepareMoments}};
constinit const KernelList kBatchNormGradSumsCpu = {{"vector", PrepareGradSums}};
constinit const KernelList kBatchNormMergeCpu = {{"plain", PrepareMerge}};

}  // namespace tandem::ops
