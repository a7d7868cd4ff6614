#include "kernels/ops/batch_norm.h"

#include <array>
#include <cmath>

#include "kernels/ops/cpu_args.h"
#include "kernels/ops/norm_loops.h"
#include "kernels/ops/op_defs.h"
#include "kernels/ops/parallel.h"

namespace tandem {
namespace {

constexpr int64_t kLanes = NormLoops::kLanes;
using Lanes = std::array<float, kLanes>;

struct State {
  BatchNormShape s;
  float momentum, epsilon;
  bool is_test, relu;
  const NormLoops& loops;
  int parts;
};

Lanes Splat(float value) {
  Lanes lanes;
  lanes.fill(value);
  return lanes;
}

double SumOf(const Lanes& lanes) {
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// Offset of the plane of channel `c` in image `n`.
int64_t PlaneAt(const BatchNormShape& s, int64_t n, int64_t c) {
  return (n * s.channels + c) * s.plane;
}

struct Moments {
  double mean = 0, variance = 0;
};

// Plane after plane, each in two passes while it is in the cache, joined by Chan, Golub and
// LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979: no
// cancellation, however far the mean is from 0.
Moments MomentsOf(const State& st, const float* x, int64_t c) {
  const auto plane = static_cast<double>(st.s.plane);
  double count = 0, mean = 0, m2 = 0;
  for (int64_t n = 0; n < st.s.batch; ++n) {
    const int64_t at = PlaneAt(st.s, n, c);
    Lanes sum;
    st.loops.sums(x + at, st.s.plane, sum.data());
    const double plane_mean = SumOf(sum) / plane;
    st.loops.squares(x + at, Splat(static_cast<float>(plane_mean)).data(), st.s.plane, sum.data());
    const double delta = plane_mean - mean, total = count + plane;
    mean += delta * plane / total;
    m2 += SumOf(sum) + delta * delta * count * plane / total;
    count = total;
  }
  return {mean, m2 / count};
}

// One step of a running statistic. As one expression in f32: the same bits on every machine.
float Advance(float momentum, float running, float now) {
  return running * momentum + now * (1.0f - momentum);
}

void Channel(const State& st, const KernelArgs& args, int64_t c) {
  const float *mean_in = InF32(args, 3), *variance_in = InF32(args, 4);
  float *mean_out = OutF32(args, 1), *variance_out = OutF32(args, 2);
  auto mean = mean_in[c], variance = variance_in[c];
  if (st.is_test) {
    mean_out[c] = mean;
    variance_out[c] = variance;
  } else {
    const Moments moments = MomentsOf(st, InF32(args, 0), c);
    mean = static_cast<float>(moments.mean);
    variance = static_cast<float>(moments.variance);
    mean_out[c] = Advance(st.momentum, mean_in[c], mean);
    variance_out[c] = Advance(st.momentum, variance_in[c], variance);
  }
  const float inv_std = 1.0f / std::sqrt(variance + st.epsilon);
  OutF32(args, 3)[c] = mean;
  OutF32(args, 4)[c] = inv_std;
  const Lanes means = Splat(mean), scales = Splat(InF32(args, 1)[c] * inv_std);
  const Lanes biases = Splat(InF32(args, 2)[c]);
  const float* z = st.relu ? InF32(args, 5) : nullptr;
  for (int64_t n = 0; n < st.s.batch; ++n) {
    const int64_t at = PlaneAt(st.s, n, c);
    st.loops.apply({.x = InF32(args, 0) + at,
                    .z = z == nullptr ? nullptr : z + at,
                    .mean = means.data(),
                    .scale = scales.data(),
                    .bias = biases.data(),
                    .relu = st.relu,
                    .y = OutF32(args, 0) + at},
                   st.s.plane);
  }
}

void ChannelGrad(const State& st, const KernelArgs& args, int64_t c) {
  const float inv_std = InF32(args, 3)[c];
  const Lanes mean = Splat(InF32(args, 2)[c]), scale = Splat(InF32(args, 1)[c] * inv_std);
  float *gx = OutF32(args, 0), *gz = st.relu ? OutF32(args, 3) : nullptr;
  const auto plane = [&](int64_t at) {
    return NormLoops::Grad{.x = InF32(args, 0) + at,
                           .y = st.relu ? InF32(args, 5) + at : nullptr,
                           .g = InF32(args, 4) + at,
                           .mean = mean.data(),
                           .scale = scale.data(),
                           .mean_g = nullptr,
                           .slope = nullptr,
                           .gx = gx == nullptr ? nullptr : gx + at,
                           .gz = gz == nullptr ? nullptr : gz + at};
  };
  double sum_g = 0, sum_gx = 0;
  for (int64_t n = 0; n < st.s.batch; ++n) {
    const int64_t at = PlaneAt(st.s, n, c);
    Lanes g, gx_centered;
    st.loops.grad_sums(plane(at), st.s.plane, g.data(), gx_centered.data());
    sum_g += SumOf(g);
    sum_gx += SumOf(gx_centered);
  }
  if (float* gscale = OutF32(args, 1)) gscale[c] = static_cast<float>(sum_gx * inv_std);
  if (float* gbias = OutF32(args, 2)) gbias[c] = static_cast<float>(sum_g);
  if (gx == nullptr && gz == nullptr) return;
  const double count = st.is_test ? INFINITY : static_cast<double>(st.s.samples());
  const Lanes mean_g = Splat(static_cast<float>(sum_g / count));
  const Lanes slope = Splat(static_cast<float>(sum_gx * inv_std * inv_std / count));
  for (int64_t n = 0; n < st.s.batch; ++n) {
    const int64_t at = PlaneAt(st.s, n, c);
    NormLoops::Grad grad = plane(at);
    grad.mean_g = mean_g.data();
    grad.slope = slope.data();
    st.loops.grad(grad, st.s.plane);
  }
}

// A channel is one thread's, so that its sums have one order.
template <void (*Body)(const State&, const KernelArgs&, int64_t)>
Status Run(State& st, const KernelArgs& args) {
  ParallelFor(st.parts, st.s.channels, [&](int, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) Body(st, args, c);
  });
  return OkStatus();
}

template <void (*Body)(const State&, const KernelArgs&, int64_t), bool kRelu>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const BatchNormShape s, BatchNormShapeOf(view));
  return MakeKernel<State, Run<Body>>({s, static_cast<float>(view.attr<double>("momentum")),
                                       static_cast<float>(view.attr<double>("epsilon")),
                                       view.attr<bool>("is_test"), kRelu, BestNormLoops(),
                                       PartsFor(ctx.threads, view.in(0).shape.numel())});
}

}  // namespace

std::vector<KernelImpl> BatchNormCpu() { return {{"vector", Prepare<Channel, false>}}; }
std::vector<KernelImpl> BatchNormGradCpu() { return {{"vector", Prepare<ChannelGrad, false>}}; }
std::vector<KernelImpl> FusedBnAddActivationCpu() { return {{"vector", Prepare<Channel, true>}}; }
std::vector<KernelImpl> FusedBnAddActivationGradCpu() {
  return {{"vector", Prepare<ChannelGrad, true>}};
}

}  // namespace tandem
