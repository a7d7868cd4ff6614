// CUDA kernels of batch_norm and fused_bn_add_activation, which are defined in batch_norm.cc.
#include "kernels/ops/core/kernel_settings.h"
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/norm/batch_norm_cuda.h"
#include "kernels/ops/norm/batch_norm_dnn_cuda.h"
#include "kernels/ops/norm/batch_norm_graph.h"

namespace tandem::ops {
namespace {

constexpr size_t AlignedBytes(size_t bytes) {
  return (bytes + Device::kAlignment - 1) / Device::kAlignment * Device::kAlignment;
}

// ---- batch_norm, our own kernels ----------------------------------------------------------------

struct ChannelOf {
  int64_t channels, inner;
  __device__ int64_t operator()(int64_t i) const {
    return Remainder(inner == 1 ? i : Quotient(i, inner), channels);
  }
};

// Computes mean and variance in two passes, so that no cancellation occurs, even if the mean is far
// from 0.
template <typename T>
Status Moments(const BatchNormState& s, const KernelArgs& args) {
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

Status TestMoments(const BatchNormState& s, const KernelArgs& args) {
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
Status Run(BatchNormState& s, const KernelArgs& args) {
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

// Computes the gradients. Let g' be the gradient of Y, but 0 where relu is 0. Scratch memory
// contains the sums per channel of g' and of g' (x - mean), then the scratch memory of the
// summation.
template <typename T>
Status RunGrad(BatchNormState& s, const KernelArgs& args) {
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
  const BatchNormState st = s;
  const ChannelOf channel{s.channels, s.inner};
  return ForEach(args, s.numel(), [=] __device__(int64_t i) {
    const int64_t c = channel(i);
    const float v = masked(i);
    if (gx != nullptr) {
      // Input Sums, if present, contains the sums over all ranks. With is_test, statistics are
      // constants.
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

template <Status (*Body)(BatchNormState&, const KernelArgs&), bool relu>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const BatchNormState state, BatchNormSettingsOf(view, relu));
  return MakeKernel<BatchNormState, Body>(state, state.scratch_bytes());
}

// ---- batch_norm in training, by cuDNN -----------------------------------------------------------

// State of a batch_norm kernel by cuDNN. Outputs never share memory with inputs, because
// BatchNormCudaRows registers the kernel with KernelRegistration::apart.
struct DnnState {
  DnnBatchNorm norm;
  BatchNormState s;

  // Scratch memory contains two values per channel, then memory for an output that is not needed.
  // spare_at() is the offset of the memory for this output.
  size_t spare_at() const {
    return AlignedBytes(2 * static_cast<size_t>(s.channels) * sizeof(float));
  }
  void* Out0(const KernelArgs& args) const {
    return args.out[0] != nullptr ? args.out[0]
                                  : static_cast<std::byte*>(args.scratch) + spare_at();
  }
};

// Computes the running statistics, because cuDNN's running variance has the divisor n - 1, and
// Tandem's has the divisor n. The batch variance is computed from the values that cuDNN saves.
Status AdvanceBySaved(const BatchNormState& s, const KernelArgs& args) {
  const float *mean_in = In<float>(args, 3), *variance_in = In<float>(args, 4);
  float *mean_out = Out<float>(args, 1), *variance_out = Out<float>(args, 2);
  const float *mean = Out<float>(args, 3), *inv = Out<float>(args, 4);
  const float momentum = s.momentum;
  const double epsilon = s.epsilon;
  return ForEach(args, s.channels, [=] __device__(int64_t c) {
    const double variance = 1.0 / (static_cast<double>(inv[c]) * inv[c]) - epsilon;
    mean_out[c] = AdvanceStatistic(momentum, mean_in[c], mean[c]);
    variance_out[c] = AdvanceStatistic(momentum, variance_in[c],
                                       0.0 > variance ? 0.0f : static_cast<float>(variance));
  });
}

Status RunDnn(DnnState& st, const KernelArgs& args) {
  TD_RETURN_IF_ERROR(st.norm.Forward(args, args.in[0], In<float>(args, 1), In<float>(args, 2),
                                     st.Out0(args), Out<float>(args, 3), Out<float>(args, 4)));
  return AdvanceBySaved(st.s, args);
}

Status RunDnnGrad(DnnState& st, const KernelArgs& args) {
  auto* rest = static_cast<float*>(args.scratch);  // memory for gradients that are not needed
  float *gscale = Out<float>(args, 1), *gbias = Out<float>(args, 2);
  return st.norm.Backward(args, args.in[0], args.in[4], In<float>(args, 1), In<float>(args, 2),
                          In<float>(args, 3), st.Out0(args), gscale != nullptr ? gscale : rest,
                          gbias != nullptr ? gbias : rest + st.s.channels);
}

template <Status (*Body)(DnnState&, const KernelArgs&)>
StatusOr<Kernel> PrepareDnn(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const BatchNormShape s, BatchNormShapeOf(view));
  DnnState state;
  TD_ASSIGN_OR_RETURN(state.s, BatchNormSettingsOf(view, /*relu=*/false));
  if (state.s.is_test) return Unimplemented("this kernel does not support is_test=true");
  if (view.has_in(5)) return Unimplemented("this kernel does not support sums of several ranks");
  if (state.s.count < 2)
    return Unimplemented("this kernel does not support a batch of one element per channel");
  TD_ASSIGN_OR_RETURN(
      state.norm, DnnBatchNorm::Make({s.batch, s.channels, s.plane, s.layout == ImageLayout::kLast},
                                     view.in(0).dtype, view.attr<double>("epsilon"),
                                     ctx.settings.persistent_batch_norm));
  const size_t scratch = state.spare_at() + (view.has_out(0) ? 0 : view.in(0).bytes());
  return MakeKernel<DnnState, Body>(std::move(state), scratch);
}

// ---- batch_norm in training by cuDNN's graphs, including Z and the activation -------------------

struct GraphState {
  std::shared_ptr<const DnnPlan> plan;
  BatchNormGraph ids;  // ids of the tensors in the graph
  BatchNormState s;
  bool refused = false;

  size_t workspace_at() const { return 0; }  // offset of the workspace in scratch memory
};

Status RunPlan(const GraphState& st, const KernelArgs& args) {
  const DnnGraph::BatchNormTensors& norm = st.ids.norm;
  std::vector<DnnPlan::Given> given = {
      {norm.x, args.in[0]},          {norm.scale, args.in[1]},       {norm.bias, args.in[2]},
      {norm.epsilon, &st.s.epsilon}, {norm.saved_mean, args.out[3]}, {norm.saved_inv, args.out[4]},
      {st.ids.y, args.out[0]}};
  if (st.ids.z.has_value()) given.push_back({*st.ids.z, args.in[5]});
  TD_RETURN_IF_ERROR(st.plan->Run(StreamOf(args).dnn, given, args.scratch));
  return AdvanceBySaved(st.s, args);
}

struct GradGraphState {
  std::shared_ptr<const DnnPlan> plan;
  BatchNormGradGraph ids;
  BatchNormState s;
  bool refused = false;

  // Returns the offset of the plan's workspace in scratch memory. The workspace follows the
  // gradients that are not needed.
  size_t workspace_at() const {
    return AlignedBytes(2 * static_cast<size_t>(s.channels) * sizeof(float));
  }
};

Status RunPlan(const GradGraphState& st, const KernelArgs& args) {
  auto* const scratch = static_cast<std::byte*>(args.scratch);
  auto* const rest = reinterpret_cast<float*>(scratch);
  float *gscale = Out<float>(args, 1), *gbias = Out<float>(args, 2);
  const float zero = 0.0f;
  const DnnGraph::BatchNormGradTensors& norm = st.ids.norm;
  std::vector<DnnPlan::Given> given = {
      {norm.x, args.in[0]},
      {norm.scale, args.in[1]},
      {norm.saved_mean, args.in[2]},
      {norm.saved_inv, args.in[3]},
      {st.ids.gy, args.in[4]},
      {norm.gx, args.out[0]},
      {norm.gscale, gscale != nullptr ? gscale : rest},
      {norm.gbias, gbias != nullptr ? gbias : rest + st.s.channels}};
  if (st.ids.y.has_value()) {
    given.push_back({*st.ids.y, args.in[5]});
    given.push_back({*st.ids.zero, &zero});
  }
  if (st.ids.gz.has_value()) given.push_back({*st.ids.gz, args.out[3]});
  return st.plan->Run(StreamOf(args).dnn, given, scratch + st.workspace_at());
}

// Runs a cuDNN plan. If cuDNN rejects the case in the first run, this and all later runs use our
// own kernels. CUDA graphs are recorded after the first run, so they contain the final choice.
template <typename S, Status (*Own)(BatchNormState&, const KernelArgs&)>
Status RunGraph(S& st, const KernelArgs& args) {
  if (!st.refused) {
    const Status status = RunPlan(st, args);
    if (status.code() != StatusCode::kUnimplemented) return status;
    st.refused = true;
  }
  return Own(st.s, args);
}

template <typename S, Status (*Own)(BatchNormState&, const KernelArgs&)>
Kernel MakeGraphKernel(S state) {
  const size_t scratch =
      std::max(state.workspace_at() + state.plan->workspace(), state.s.scratch_bytes());
  return MakeKernel<S, RunGraph<S, Own>>(std::move(state), scratch);
}

StatusOr<BatchNormGraphShape> GraphShapeOf(const OpView& view, const PrepareContext& ctx,
                                           const BatchNormState& s) {
  TD_ASSIGN_OR_RETURN(const BatchNormShape shape, BatchNormShapeOf(view));
  const DType dtype = view.in(0).dtype;
  if (!ctx.settings.persistent_batch_norm)
    return Unimplemented("the kernel is switched off by cudnn_batchnorm_spatial_persistent=false");
  if (shape.layout != ImageLayout::kLast)
    return Unimplemented("this kernel does not support layout %s, expected NHWC",
                         view.attr<std::string>("data_layout"));
  if (s.channels * static_cast<int64_t>(SizeOf(dtype)) % 16 != 0) {
    return Unimplemented("this kernel does not support %d channels of %s", s.channels, Name(dtype));
  }
  if (s.is_test) return Unimplemented("this kernel does not support is_test=true");
  if (s.count < 2)
    return Unimplemented("this kernel does not support a batch of one element per channel");
  return BatchNormGraphShape{DnnTypeOf(dtype), shape.batch, shape.channels, shape.plane, s.relu};
}

template <typename T, bool relu>
StatusOr<Kernel> PrepareGraphAs(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const BatchNormState s, BatchNormSettingsOf(view, relu));
  TD_ASSIGN_OR_RETURN(BatchNormGraphShape shape, GraphShapeOf(view, ctx, s));
  shape.z = view.has_in(5);
  BatchNormGraph ids(shape);
  TD_ASSIGN_OR_RETURN(auto plan, DnnPlans(ids.graph, ctx).Best(kBatchNormWorkspace));
  return MakeGraphKernel<GraphState, Run<T>>({std::move(plan), std::move(ids), s});
}

template <typename T, bool relu>
StatusOr<Kernel> PrepareGradGraphAs(const OpView& view, const PrepareContext& ctx) {
  if (view.has_in(relu ? 6 : 5))
    return Unimplemented("this kernel does not support sums of several ranks");
  if (!view.has_out(0))
    return Unimplemented("this kernel always computes the gradient of X, which is not requested");
  TD_ASSIGN_OR_RETURN(const BatchNormState s, BatchNormSettingsOf(view, relu));
  TD_ASSIGN_OR_RETURN(BatchNormGraphShape shape, GraphShapeOf(view, ctx, s));
  shape.z = relu && view.has_out(3);
  BatchNormGradGraph ids(shape);
  TD_ASSIGN_OR_RETURN(auto plan, DnnPlans(ids.graph, ctx).Best(kBatchNormWorkspace));
  return MakeGraphKernel<GradGraphState, RunGrad<T>>({std::move(plan), std::move(ids), s});
}

template <bool relu>
StatusOr<Kernel> PrepareGraph(const OpView& view, const PrepareContext& ctx) {
  return ByType<PrepareGraphAs<float, relu>, PrepareGraphAs<__half, relu>,
                PrepareGraphAs<__nv_bfloat16, relu>>(view, ctx);
}
template <bool relu>
StatusOr<Kernel> PrepareGradGraph(const OpView& view, const PrepareContext& ctx) {
  return ByType<PrepareGradGraphAs<float, relu>, PrepareGradGraphAs<__half, relu>,
                PrepareGradGraphAs<__nv_bfloat16, relu>>(view, ctx);
}

// ---- Preparation of the kernels that do not use cuDNN -------------------------------------------

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

}  // namespace

// Outputs must not share memory with inputs: cuDNN's documentation does not allow shared memory.
std::vector<KernelRegistration> BatchNormCudaRows() {
  constexpr bool kApart = true;
  return {
      {"batch_norm",
       {{"cudnn_graph", PrepareGraph<false>},
        {"cudnn", PrepareDnn<RunDnn>},
        {"cuda", PrepareForward<false>}},
       kApart},
      {"batch_norm_grad",
       {{"cudnn_graph", PrepareGradGraph<false>},
        {"cudnn", PrepareDnn<RunDnnGrad>},
        {"cuda", PrepareGrad<false>}},
       kApart},
      {"fused_bn_add_activation",
       {{"cudnn_graph", PrepareGraph<true>}, {"cuda", PrepareForward<true>}},
       kApart},
      {"fused_bn_add_activation_grad",
       {{"cudnn_graph", PrepareGradGraph<true>}, {"cuda", PrepareGrad<true>}},
       kApart},
  };
}

}  // namespace tandem::ops
