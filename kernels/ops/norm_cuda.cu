// CUDA kernels of batch_norm, alone, fused and over several ranks, and layer_norm; definitions in
// batch_norm.cc, sync_batch_norm.cc and layer_norm.cc.
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/batch_norm_dnn_cuda.h"
#include "kernels/ops/cuda_kernels.h"
#include "kernels/ops/cuda_reduce.h"

namespace tandem {
namespace {

// ---- batch_norm ---------------------------------------------------------------------------------

struct State {
  int64_t outer, channels, inner;  // X as [outer, channels, inner]
  float count;                     // elements of a channel
  float images;
  int64_t plane;
  float momentum, epsilon;
  bool is_test, relu;

  int64_t numel() const { return outer * channels * inner; }
  MiddleSums sums() const { return {outer, channels, inner}; }
  // Of a run: two sums a channel, and what they need.
  size_t scratch_bytes() const {
    return 2 * static_cast<size_t>(channels) * sizeof(float) + sums().scratch_bytes();
  }
};

struct ChannelOf {
  int64_t channels, inner;
  __device__ int64_t operator()(int64_t i) const {
    return Remainder(inner == 1 ? i : Quotient(i, inner), channels);
  }
};

// Mean and variance in two passes, so that nothing cancels however far the mean is from 0.
template <typename T>
Status Moments(const State& s, const KernelArgs& args) {
  const T* x = In<T>(args, 0);
  float *saved_mean = Out<float>(args, 3), *saved_inv = Out<float>(args, 4);
  const float *mean_in = In<float>(args, 3), *variance_in = In<float>(args, 4);
  float *mean_out = Out<float>(args, 1), *variance_out = Out<float>(args, 2);
  const float count = s.count, momentum = s.momentum, epsilon = s.epsilon;
  TD_RETURN_IF_ERROR(s.sums().Run(
      args, args.scratch, [=] __device__(int64_t i, int64_t) { return Wide(x[i]); },
      [=] __device__(int64_t c, float sum) {
        const float mean = sum / count;
        mean_out[c] = AdvanceStatistic(momentum, mean_in[c], mean);
        saved_mean[c] = mean;
      }));
  return s.sums().Run(
      args, args.scratch,
      [=] __device__(int64_t i, int64_t c) {
        const float d = Wide(x[i]) - saved_mean[c];
        return d * d;
      },
      [=] __device__(int64_t c, float sum) {
        const float variance = sum / count;
        variance_out[c] = AdvanceStatistic(momentum, variance_in[c], variance);
        saved_inv[c] = 1.0f / sqrtf(variance + epsilon);
      });
}

Status TestMoments(const State& s, const KernelArgs& args) {
  const float *mean = In<float>(args, 3), *variance = In<float>(args, 4), epsilon = s.epsilon;
  float *mean_out = Out<float>(args, 1), *variance_out = Out<float>(args, 2);
  float *saved_mean = Out<float>(args, 3), *saved_inv = Out<float>(args, 4);
  return ForEach(args, s.channels, [=] __device__(int64_t c) {
    const float m = mean[c], v = variance[c];
    mean_out[c] = saved_mean[c] = m;
    variance_out[c] = v;
    saved_inv[c] = 1.0f / sqrtf(v + epsilon);
  });
}

template <typename T>
Status Run(State& s, const KernelArgs& args) {
  TD_RETURN_IF_ERROR(s.is_test ? TestMoments(s, args) : Moments<T>(s, args));
  const T *x = In<T>(args, 0), *z = s.relu ? In<T>(args, 5) : nullptr;
  const float *weight = In<float>(args, 1), *bias = In<float>(args, 2);
  const float *mean = Out<float>(args, 3), *inv = Out<float>(args, 4);
  T* y = Out<T>(args, 0);
  const ChannelOf channel{s.channels, s.inner};
  const bool relu = s.relu;
  return ForEach(args, s.numel(), [=] __device__(int64_t i) {
    const int64_t c = channel(i);
    float v = (Wide(x[i]) - mean[c]) * (weight[c] * inv[c]) + bias[c];
    if (z != nullptr) v += Wide(z[i]);
    y[i] = Narrow<T>(relu && 0.0f > v ? 0.0f : v);
  });
}

// Of g', which is g where y > 0 or there is no y, else 0.
template <typename T>
struct Masked {
  const T *y, *g;
  __device__ float operator()(int64_t i) const {
    return y == nullptr || Wide(y[i]) > 0.0f ? Wide(g[i]) : 0.0f;
  }
};

// Scratch: the sums over each channel of g' and of g' (x - mean), then that of the sums.
template <typename T>
Status RunGrad(State& s, const KernelArgs& args) {
  const T* x = In<T>(args, 0);
  const float *weight = In<float>(args, 1), *mean = In<float>(args, 2), *inv = In<float>(args, 3);
  const Masked<T> masked{s.relu ? In<T>(args, 5) : nullptr, In<T>(args, 4)};
  const float* given = In<float>(args, s.relu ? 6 : 5);
  float *gscale = Out<float>(args, 1), *gbias = Out<float>(args, 2);
  auto* sum_g = static_cast<float*>(args.scratch);
  float *sum_gx = sum_g + s.channels, *rest = sum_gx + s.channels;
  TD_RETURN_IF_ERROR(s.sums().Run(
      args, rest, [=] __device__(int64_t i, int64_t) { return masked(i); },
      [=] __device__(int64_t c, float sum) {
        sum_g[c] = sum;
        if (gbias != nullptr) gbias[c] = sum;
      }));
  TD_RETURN_IF_ERROR(s.sums().Run(
      args, rest,
      [=] __device__(int64_t i, int64_t c) { return masked(i) * (Wide(x[i]) - mean[c]); },
      [=] __device__(int64_t c, float sum) {
        sum_gx[c] = sum;
        if (gscale != nullptr) gscale[c] = sum * inv[c];
      }));
  T *gx = Out<T>(args, 0), *gz = s.relu ? Out<T>(args, 3) : nullptr;
  if (gx == nullptr && gz == nullptr) return OkStatus();
  const State st = s;
  const ChannelOf channel{s.channels, s.inner};
  return ForEach(args, s.numel(), [=] __device__(int64_t i) {
    const int64_t c = channel(i);
    const float v = masked(i);
    if (gx != nullptr) {
      // Of all ranks where Sums says so; with is_test the statistics are constants.
      const float count = given == nullptr ? st.count : given[0] * static_cast<float>(st.plane);
      const float all_g = given == nullptr ? sum_g[c] : given[1 + c];
      const float all_gx = given == nullptr ? sum_gx[c] : given[1 + st.channels + c];
      const float mean_g = st.is_test ? 0.0f : all_g / count;
      const float slope = st.is_test ? 0.0f : all_gx * inv[c] * inv[c] / count;
      gx[i] = Narrow<T>(weight[c] * inv[c] * (v - mean_g - (Wide(x[i]) - mean[c]) * slope));
    }
    if (gz != nullptr) gz[i] = Narrow<T>(v);
  });
}

// Sizes alone.
StatusOr<State> StateOf(const OpView& view) {
  TD_ASSIGN_OR_RETURN(const BatchNormShape s, BatchNormShapeOf(view));
  if (s.blocked()) return Unimplemented("the layout nChw16c");
  const bool last = s.layout == ImageLayout::kLast;
  State state{};
  state.outer = last ? s.batch * s.plane : s.batch;
  state.channels = s.channels;
  state.inner = last ? 1 : s.plane;
  state.count = static_cast<float>(s.batch * s.plane);
  state.images = static_cast<float>(s.batch);
  state.plane = s.plane;
  return state;
}

StatusOr<State> SettingsOf(const OpView& view, bool relu) {
  TD_ASSIGN_OR_RETURN(State state, StateOf(view));
  state.momentum = static_cast<float>(view.attr<double>("momentum"));
  state.epsilon = static_cast<float>(view.attr<double>("epsilon"));
  state.is_test = view.attr<bool>("is_test");
  state.relu = relu;
  return state;
}

template <Status (*Body)(State&, const KernelArgs&), bool relu>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const State state, SettingsOf(view, relu));
  return MakeKernel<State, Body>(state, state.scratch_bytes());
}

// ---- batch_norm in training, by cuDNN -----------------------------------------------------------

struct DnnState {
  DnnBatchNorm norm;
  State s;
  size_t bytes;  // of X

  // Scratch: two values a channel, and room for an output that lies in the place of an input, of
  // which cuDNN does not speak, or that nobody wants.
  size_t spare_at() const {
    const size_t sums = 2 * static_cast<size_t>(s.channels) * sizeof(float);
    return (sums + Device::kAlignment - 1) / Device::kAlignment * Device::kAlignment;
  }
  void* OutFor(const KernelArgs& args, const void* in) const {
    const bool own = args.out[0] != nullptr && args.out[0] != in;
    return own ? args.out[0] : static_cast<std::byte*>(args.scratch) + spare_at();
  }
  Status Give(const KernelArgs& args, const void* from) const {
    return args.out[0] == nullptr ? OkStatus() : CopyOnDevice(args, args.out[0], from, bytes);
  }
};

// cuDNN's running variance is divided by m - 1, ours by m: it gives that of the batch alone.
Status RunDnn(DnnState& st, const KernelArgs& args) {
  auto* mean = static_cast<float*>(args.scratch);
  float* variance = mean + st.s.channels;
  const size_t bytes = 2 * static_cast<size_t>(st.s.channels) * sizeof(float);
  void* y = st.OutFor(args, args.in[0]);
  TD_RETURN_IF_ERROR(ZeroOnDevice(args, mean, bytes));
  TD_RETURN_IF_ERROR(st.norm.Forward(args, args.in[0], In<float>(args, 1), In<float>(args, 2), y,
                                     mean, variance, Out<float>(args, 3), Out<float>(args, 4)));
  TD_RETURN_IF_ERROR(st.Give(args, y));
  const float *mean_in = In<float>(args, 3), *variance_in = In<float>(args, 4);
  float *mean_out = Out<float>(args, 1), *variance_out = Out<float>(args, 2);
  const float momentum = st.s.momentum, share = (st.s.count - 1.0f) / st.s.count;
  return ForEach(args, st.s.channels, [=] __device__(int64_t c) {
    mean_out[c] = AdvanceStatistic(momentum, mean_in[c], mean[c]);
    variance_out[c] = AdvanceStatistic(momentum, variance_in[c], variance[c] * share);
  });
}

Status RunDnnGrad(DnnState& st, const KernelArgs& args) {
  auto* rest = static_cast<float*>(args.scratch);  // for gradients that nobody wants
  float *gscale = Out<float>(args, 1), *gbias = Out<float>(args, 2);
  void* gx = st.OutFor(args, args.in[4]);
  TD_RETURN_IF_ERROR(st.norm.Backward(
      args, args.in[0], args.in[4], In<float>(args, 1), In<float>(args, 2), In<float>(args, 3), gx,
      gscale != nullptr ? gscale : rest, gbias != nullptr ? gbias : rest + st.s.channels));
  return st.Give(args, gx);
}

template <Status (*Body)(DnnState&, const KernelArgs&)>
StatusOr<Kernel> PrepareDnn(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const BatchNormShape s, BatchNormShapeOf(view));
  DnnState state{.bytes = view.in(0).bytes()};
  TD_ASSIGN_OR_RETURN(state.s, SettingsOf(view, /*relu=*/false));
  if (state.s.is_test) return Unimplemented("given statistics");
  if (view.has_in(5)) return Unimplemented("sums of several ranks");
  if (state.s.count < 2) return Unimplemented("one sample");
  TD_ASSIGN_OR_RETURN(
      state.norm, DnnBatchNorm::Make({s.batch, s.channels, s.plane, s.layout == ImageLayout::kLast},
                                     view.in(0).dtype, view.attr<double>("epsilon"),
                                     ctx.persistent_batch_norm));
  const size_t scratch = state.spare_at() + state.bytes;
  return MakeKernel<DnnState, Body>(std::move(state), scratch);
}

// ---- By the own kernels -------------------------------------------------------------------------

template <bool relu>
StatusOr<Kernel> PrepareForward(const OpView& view, const PrepareContext& ctx) {
  return ByType<Prepare<Run<float>, relu>, Prepare<Run<__half>, relu>,
                Prepare<Run<__nv_bfloat16>, relu>>(view, ctx);
}
template <bool relu>
StatusOr<Kernel> PrepareGrad(const OpView& view, const PrepareContext& ctx) {
  return ByType<Prepare<RunGrad<float>, relu>, Prepare<RunGrad<__half>, relu>,
                Prepare<RunGrad<__nv_bfloat16>, relu>>(view, ctx);
}

// ---- batch_norm over several ranks --------------------------------------------------------------

struct MomentsState {
  State s;
  int64_t rank, ranks;
};

Status RunMoments(MomentsState& st, const KernelArgs& args) {
  const float* x = In<float>(args, 0);
  const int64_t channels = st.s.channels, columns = 2 * channels + 1;
  float* row = Out<float>(args, 0) + st.rank * columns;
  const float count = st.s.count, images = st.s.images;
  const size_t bytes = static_cast<size_t>(st.ranks * columns) * sizeof(float);
  TD_RETURN_IF_ERROR(ZeroOnDevice(args, args.out[0], bytes));
  TD_RETURN_IF_ERROR(st.s.sums().Run(
      args, args.scratch, [=] __device__(int64_t i, int64_t) { return x[i]; },
      [=] __device__(int64_t c, float sum) {
        row[1 + c] = sum / count;
        if (c == 0) row[0] = images;
      }));
  return st.s.sums().Run(
      args, args.scratch,
      [=] __device__(int64_t i, int64_t c) { return (x[i] - row[1 + c]) * (x[i] - row[1 + c]); },
      [=] __device__(int64_t c, float sum) { row[1 + channels + c] = sum / count; });
}

StatusOr<Kernel> PrepareMoments(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const State s, StateOf(view));
  const MomentsState state{s, view.attr<int64_t>("rank"), view.attr<int64_t>("ranks")};
  return MakeKernel<MomentsState, RunMoments>(state, s.sums().scratch_bytes());
}

struct MergeState {
  int64_t ranks, channels;
  float momentum;
};

Status RunMerge(MergeState& st, const KernelArgs& args) {
  const MergeState s = st;
  const float* moments = In<float>(args, 0);
  const float *mean = In<float>(args, 1), *variance = In<float>(args, 2);
  float *batch_mean = Out<float>(args, 0), *batch_variance = Out<float>(args, 1);
  float *mean_out = Out<float>(args, 2), *variance_out = Out<float>(args, 3);
  return ForEach(args, s.channels, [=] __device__(int64_t c) {
    JoinedMoments joined;
    for (int64_t r = 0; r < s.ranks; ++r) {
      const float* row = moments + r * (2 * s.channels + 1);
      joined.Add(row[0], row[1 + c], row[1 + s.channels + c]);
    }
    const auto m = static_cast<float>(joined.mean);
    const auto v = static_cast<float>(joined.m2 / joined.count);
    batch_mean[c] = m;
    batch_variance[c] = v;
    mean_out[c] = AdvanceStatistic(s.momentum, mean[c], m);
    variance_out[c] = AdvanceStatistic(s.momentum, variance[c], v);
  });
}

StatusOr<Kernel> PrepareMerge(const OpView& view, const PrepareContext&) {
  return MakeKernel<MergeState, RunMerge>({view.in(0).shape[0], view.in(1).shape[0],
                                           static_cast<float>(view.attr<double>("momentum"))});
}

Status RunGradSums(State& s, const KernelArgs& args) {
  const float *x = In<float>(args, 0), *mean = In<float>(args, 1);
  const Masked<float> masked{In<float>(args, 3), In<float>(args, 2)};
  float* out = Out<float>(args, 0);
  const int64_t channels = s.channels;
  const float images = s.images;
  TD_RETURN_IF_ERROR(s.sums().Run(
      args, args.scratch, [=] __device__(int64_t i, int64_t) { return masked(i); },
      [=] __device__(int64_t c, float sum) {
        out[1 + c] = sum;
        if (c == 0) out[0] = images;
      }));
  return s.sums().Run(
      args, args.scratch,
      [=] __device__(int64_t i, int64_t c) { return masked(i) * (x[i] - mean[c]); },
      [=] __device__(int64_t c, float sum) { out[1 + channels + c] = sum; });
}

StatusOr<Kernel> PrepareGradSums(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(State state, StateOf(view));
  return MakeKernel<State, RunGradSums>(state, state.sums().scratch_bytes());
}

// ---- layer_norm: a block takes a row ------------------------------------------------------------

struct LayerState {
  int64_t rows, n;
  float epsilon;

  ColumnSums columns() const { return {rows, n}; }
};

__global__ void LayerNormKernel(LayerState s, const float* x, const float* scale, const float* bias,
                                float* y, float* means, float* variances) {
  const auto n = static_cast<float>(s.n);
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const float* row = x + r * s.n;
    float sum = 0.0f, squares = 0.0f;
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) sum += row[i];
    const float mean = BlockSum(sum) / n;
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) {
      squares += (row[i] - mean) * (row[i] - mean);
    }
    const float variance = BlockSum(squares) / n;
    const float inverse = 1.0f / sqrtf(variance + s.epsilon);
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) {
      const float v = (row[i] - mean) * inverse * (scale == nullptr ? 1.0f : scale[i]);
      y[r * s.n + i] = v + (bias == nullptr ? 0.0f : bias[i]);
    }
    if (threadIdx.x != 0) continue;
    if (means != nullptr) means[r] = mean;
    if (variances != nullptr) variances[r] = variance;
  }
}

// With h = (x - mean) r and q = gy scale: gx = r (q - mean of q - h * mean of q h).
__global__ void LayerNormGradKernel(LayerState s, const float* x, const float* scale,
                                    const float* means, const float* variances, const float* gy,
                                    float* gx) {
  const float share = 1.0f / static_cast<float>(s.n);
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const int64_t at = r * s.n;
    const float mean = means[r], inverse = 1.0f / sqrtf(variances[r] + s.epsilon);
    float sum = 0.0f, dot = 0.0f;
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) {
      const float q = gy[at + i] * (scale == nullptr ? 1.0f : scale[i]);
      sum += q;
      dot += q * (x[at + i] - mean);
    }
    const float a = BlockSum(sum) * share, b = BlockSum(dot) * share * inverse * inverse;
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) {
      const float q = gy[at + i] * (scale == nullptr ? 1.0f : scale[i]);
      gx[at + i] = inverse * (q - a - (x[at + i] - mean) * b);
    }
  }
}

Status RunLayerNorm(LayerState& s, const KernelArgs& args) {
  if (s.rows == 0) return OkStatus();
  return Launch(args, CudaBlocks(s.rows, 1), RowThreads(s.n), LayerNormKernel, s,
                In<float>(args, 0), In<float>(args, 1), In<float>(args, 2), Out<float>(args, 0),
                Out<float>(args, 1), Out<float>(args, 2));
}

Status RunLayerNormGrad(LayerState& s, const KernelArgs& args) {
  const float *x = In<float>(args, 0), *mean = In<float>(args, 2), *variance = In<float>(args, 3);
  const float *gy = In<float>(args, 4), epsilon = s.epsilon;
  const int64_t n = s.n;
  if (float* gscale = Out<float>(args, 1)) {
    TD_RETURN_IF_ERROR(s.columns().Run(
        args, args.scratch,
        [=] __device__(int64_t r, int64_t j) {
          const float inverse = 1.0f / sqrtf(variance[r] + epsilon);
          return gy[r * n + j] * ((x[r * n + j] - mean[r]) * inverse);
        },
        [=] __device__(int64_t j, float sum) { gscale[j] = sum; }));
  }
  if (float* gbias = Out<float>(args, 2)) {
    TD_RETURN_IF_ERROR(s.columns().Run(
        args, args.scratch, [=] __device__(int64_t r, int64_t j) { return gy[r * n + j]; },
        [=] __device__(int64_t j, float sum) { gbias[j] = sum; }));
  }
  float* gx = Out<float>(args, 0);
  if (gx == nullptr || s.rows == 0) return OkStatus();
  return Launch(args, CudaBlocks(s.rows, 1), RowThreads(n), LayerNormGradKernel, s, x,
                In<float>(args, 1), mean, variance, gy, gx);
}

template <Status (*Body)(LayerState&, const KernelArgs&)>
StatusOr<Kernel> PrepareLayerNorm(const OpView& view, const PrepareContext&) {
  const Shape& x = view.in(0).shape;
  const int axis = static_cast<int>(view.attr<int64_t>("begin_norm_axis"));
  const LayerState s{x.numel(0, axis), x.numel(axis, x.rank()),
                     static_cast<float>(view.attr<double>("epsilon"))};
  return MakeKernel<LayerState, Body>(s, s.columns().scratch_bytes());
}

}  // namespace

std::vector<KernelRow> NormCudaRows() {
  return {
      {"batch_norm", {{"cudnn", PrepareDnn<RunDnn>}, {"cuda", PrepareForward<false>}}},
      {"batch_norm_grad", {{"cudnn", PrepareDnn<RunDnnGrad>}, {"cuda", PrepareGrad<false>}}},
      {"batch_norm_grad_sums", {{"cuda", PrepareGradSums}}},
      {"batch_norm_merge", {{"cuda", PrepareMerge}}},
      {"batch_norm_moments", {{"cuda", PrepareMoments}}},
      {"fused_bn_add_activation", {{"cuda", PrepareForward<true>}}},
      {"fused_bn_add_activation_grad", {{"cuda", PrepareGrad<true>}}},
      {"layer_norm", {{"cuda", PrepareLayerNorm<RunLayerNorm>}}},
      {"layer_norm_grad", {{"cuda", PrepareLayerNorm<RunLayerNormGrad>}}},
  };
}

}  // namespace tandem
