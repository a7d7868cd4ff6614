// CUDA kernels of conv2d and conv2d_transpose: cuDNN's, and plain loops behind them; definitions in
// conv2d.cc and conv2d_transpose.cc. cuDNN's descriptors are made when a kernel is prepared, on any
// machine; its algorithms are chosen by its heuristics at the first run, among those that give the
// same bits each time and whose workspace fits.
#include <optional>

#include "kernels/ops/conv2d.h"
#include "kernels/ops/conv_plain_cuda.h"
#include "kernels/ops/cuda_kernels.h"
#include "kernels/ops/cuda_reduce.h"
#include "kernels/ops/dnn_cuda.h"

namespace tandem {
namespace {

constexpr size_t kWorkspaceMax = size_t{256} << 20;

// As PlainConvolution.
class DnnConvolution {
 public:
  static StatusOr<DnnConvolution> Make(const ConvShape& s, DType dtype, size_t workspace);

  static Status Serves(const ConvShape& s) {
    return s.relu_first ? Unimplemented("fuse_relu_before_depthwise_conv") : OkStatus();
  }
  static constexpr bool kNeedsWorkspace = true;

  DnnConvolution() = default;
  Status Forward(const KernelArgs& args, const void* x, const void* w, void* y);
  Status Input(const KernelArgs& args, const void* x, const void* w, const void* gy, void* gx);
  Status Filter(const KernelArgs& args, const void* x, const void* gy, void* gw);

 private:
  // The first of cuDNN's proposals that serves.
  template <typename Perf>
  StatusOr<Perf> Pick(const Perf* proposals, int count) const {
    for (const Perf* p = proposals; p < proposals + count; ++p) {
      const bool same_bits = p->determinism == CUDNN_DETERMINISTIC;
      if (p->status == CUDNN_STATUS_SUCCESS && same_bits && p->memory <= workspace_) return *p;
    }
    return Internal("cuDNN has no algorithm for this convolution within %d bytes", workspace_);
  }

  size_t workspace_ = 0;
  OwnedDnn<cudnnTensorDescriptor_t> x_, y_;
  OwnedDnn<cudnnFilterDescriptor_t> w_;
  OwnedDnn<cudnnConvolutionDescriptor_t> conv_;
  std::optional<cudnnConvolutionFwdAlgoPerf_t> forward_;
  std::optional<cudnnConvolutionBwdDataAlgoPerf_t> input_;
  std::optional<cudnnConvolutionBwdFilterAlgoPerf_t> filter_;
};

StatusOr<DnnConvolution> DnnConvolution::Make(const ConvShape& s, DType dtype, size_t workspace) {
  DnnConvolution c;
  c.workspace_ = workspace;
  TD_ASSIGN_OR_RETURN(c.x_, MakeDnn(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor));
  TD_ASSIGN_OR_RETURN(c.y_, MakeDnn(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor));
  TD_ASSIGN_OR_RETURN(c.w_, MakeDnn(cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor));
  TD_ASSIGN_OR_RETURN(c.conv_,
                      MakeDnn(cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor));
  const auto i = [](int64_t n) { return static_cast<int>(n); };
  const cudnnDataType_t type = DnnTypeOf(dtype);
  constexpr auto kNchw = CUDNN_TENSOR_NCHW;
  TD_RETURN_IF_ERROR(DnnStatus(cudnnSetTensor4dDescriptor(c.x_.get(), kNchw, type, i(s.batch),
                                                          i(s.in_c), i(s.in[0]), i(s.in[1])),
                               "input"));
  TD_RETURN_IF_ERROR(DnnStatus(cudnnSetTensor4dDescriptor(c.y_.get(), kNchw, type, i(s.batch),
                                                          i(s.out_c), i(s.out[0]), i(s.out[1])),
                               "output"));
  TD_RETURN_IF_ERROR(
      DnnStatus(cudnnSetFilter4dDescriptor(c.w_.get(), type, kNchw, i(s.out_c),
                                           i(s.in_c / s.groups), i(s.kernel[0]), i(s.kernel[1])),
                "filter"));
  TD_RETURN_IF_ERROR(DnnStatus(
      cudnnSetConvolution2dDescriptor(c.conv_.get(), i(s.pad[0]), i(s.pad[1]), i(s.stride[0]),
                                      i(s.stride[1]), i(s.dilation[0]), i(s.dilation[1]),
                                      CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      "convolution"));
  TD_RETURN_IF_ERROR(
      DnnStatus(cudnnSetConvolutionGroupCount(c.conv_.get(), i(s.groups)), "groups"));
  // f32 stays f32: no TF32.
  const auto math = dtype == DType::kF32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  TD_RETURN_IF_ERROR(DnnStatus(cudnnSetConvolutionMathType(c.conv_.get(), math), "math type"));
  return c;
}

constexpr float kOne = 1.0f, kZero = 0.0f;

Status DnnConvolution::Forward(const KernelArgs& args, const void* x, const void* w, void* y) {
  const cudnnHandle_t dnn = StreamOf(args).dnn;
  if (!forward_.has_value()) {
    cudnnConvolutionFwdAlgoPerf_t proposals[CUDNN_CONVOLUTION_FWD_ALGO_COUNT];
    int count = 0;
    TD_RETURN_IF_ERROR(DnnStatus(
        cudnnGetConvolutionForwardAlgorithm_v7(dnn, x_.get(), w_.get(), conv_.get(), y_.get(),
                                               CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &count, proposals),
        "choosing"));
    TD_ASSIGN_OR_RETURN(forward_, Pick(proposals, count));
  }
  return DnnStatus(
      cudnnConvolutionForward(dnn, &kOne, x_.get(), x, w_.get(), w, conv_.get(), forward_->algo,
                              args.scratch, workspace_, &kZero, y_.get(), y),
      "forward");
}

Status DnnConvolution::Input(const KernelArgs& args, const void*, const void* w, const void* gy,
                             void* gx) {
  const cudnnHandle_t dnn = StreamOf(args).dnn;
  if (!input_.has_value()) {
    cudnnConvolutionBwdDataAlgoPerf_t proposals[CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT];
    int count = 0;
    TD_RETURN_IF_ERROR(DnnStatus(cudnnGetConvolutionBackwardDataAlgorithm_v7(
                                     dnn, w_.get(), y_.get(), conv_.get(), x_.get(),
                                     CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, &count, proposals),
                                 "choosing"));
    TD_ASSIGN_OR_RETURN(input_, Pick(proposals, count));
  }
  return DnnStatus(
      cudnnConvolutionBackwardData(dnn, &kOne, w_.get(), w, y_.get(), gy, conv_.get(), input_->algo,
                                   args.scratch, workspace_, &kZero, x_.get(), gx),
      "input's gradient");
}

Status DnnConvolution::Filter(const KernelArgs& args, const void* x, const void* gy, void* gw) {
  const cudnnHandle_t dnn = StreamOf(args).dnn;
  if (!filter_.has_value()) {
    cudnnConvolutionBwdFilterAlgoPerf_t proposals[CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT];
    int count = 0;
    TD_RETURN_IF_ERROR(DnnStatus(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                                     dnn, x_.get(), y_.get(), conv_.get(), w_.get(),
                                     CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, &count, proposals),
                                 "choosing"));
    TD_ASSIGN_OR_RETURN(filter_, Pick(proposals, count));
  }
  return DnnStatus(
      cudnnConvolutionBackwardFilter(dnn, &kOne, x_.get(), x, y_.get(), gy, conv_.get(),
                                     filter_->algo, args.scratch, workspace_, &kZero, w_.get(), gw),
      "filter's gradient");
}

// ---- The operators ------------------------------------------------------------------------------

template <typename Conv>
struct State {
  Conv conv;
  ConvShape s;

  MiddleSums channels() const { return {s.batch, s.out_c, s.out_plane()}; }
};

template <typename Conv, typename T>
Status Run(State<Conv>& st, const KernelArgs& args) {
  TD_RETURN_IF_ERROR(st.conv.Forward(args, args.in[0], args.in[1], args.out[0]));
  const float* bias = In<float>(args, 2);
  if (bias == nullptr) return OkStatus();
  T* out = Out<T>(args, 0);
  const int64_t plane = st.s.out_plane(), channels = st.s.out_c;
  return ForEach(args, st.s.batch * channels * plane, [=] __device__(int64_t i) {
    out[i] = Narrow<T>(Wide(out[i]) + bias[Remainder(Quotient(i, plane), channels)]);
  });
}

template <typename Conv, typename T>
Status RunGrad(State<Conv>& st, const KernelArgs& args) {
  const T* g = In<T>(args, 2);
  if (args.out[0] != nullptr) {
    TD_RETURN_IF_ERROR(st.conv.Input(args, args.in[0], args.in[1], g, args.out[0]));
  }
  if (args.out[1] != nullptr) {
    TD_RETURN_IF_ERROR(st.conv.Filter(args, args.in[0], g, args.out[1]));
  }
  float* gbias = Out<float>(args, 2);
  if (gbias == nullptr) return OkStatus();
  return st.channels().Run(
      args, args.scratch, [=] __device__(int64_t i, int64_t) { return Wide(g[i]); },
      [=] __device__(int64_t c, float sum) { gbias[c] = sum; });
}

// The transposed convolution is the gradient of the input of one whose output is our Input.
template <typename Conv, typename T>
Status RunTranspose(State<Conv>& st, const KernelArgs& args) {
  return st.conv.Input(args, nullptr, args.in[1], args.in[0], args.out[0]);
}

template <typename Conv, typename T>
Status RunTransposeGrad(State<Conv>& st, const KernelArgs& args) {
  if (args.out[0] != nullptr) {
    TD_RETURN_IF_ERROR(st.conv.Forward(args, args.in[2], args.in[1], args.out[0]));
  }
  if (args.out[1] == nullptr) return OkStatus();
  return st.conv.Filter(args, args.in[2], args.in[0], args.out[1]);
}

template <typename Conv, StatusOr<ConvShape> (*ShapeOf)(const OpView&),
          Status (*Body)(State<Conv>&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ShapeOf(view));
  if (!s.plain()) return Unimplemented("only for the layout NCHW");
  TD_RETURN_IF_ERROR(Conv::Serves(s));
  if (ctx.conv_search != nullptr) return Unimplemented("cudnn_exhaustive_search on CUDA");
  if (s.batch * s.in_plane() * s.in_c * s.out_c == 0) return Unimplemented("no elements");
  const size_t workspace =
      Conv::kNeedsWorkspace ? std::min(ctx.conv_scratch_max, kWorkspaceMax) : 0;
  State<Conv> state{{}, s};
  TD_ASSIGN_OR_RETURN(state.conv, Conv::Make(s, view.in(0).dtype, workspace));
  const size_t scratch = std::max(workspace, state.channels().scratch_bytes());
  return MakeKernel<State<Conv>, Body>(std::move(state), scratch);
}

// The bodies, for Row.
struct Forward {
  template <typename Conv, typename T>
  static Status Call(State<Conv>& s, const KernelArgs& args) {
    return Run<Conv, T>(s, args);
  }
};
struct Backward {
  template <typename Conv, typename T>
  static Status Call(State<Conv>& s, const KernelArgs& args) {
    return RunGrad<Conv, T>(s, args);
  }
};
struct Transpose {
  template <typename Conv, typename T>
  static Status Call(State<Conv>& s, const KernelArgs& args) {
    return RunTranspose<Conv, T>(s, args);
  }
};
struct TransposeBackward {
  template <typename Conv, typename T>
  static Status Call(State<Conv>& s, const KernelArgs& args) {
    return RunTransposeGrad<Conv, T>(s, args);
  }
};

template <typename Body, StatusOr<ConvShape> (*shape)(const OpView&)>
KernelRow Row(const char* op) {
  using Dnn = DnnConvolution;
  using Half = __half;
  using Brain = __nv_bfloat16;
  using F32 = PlainConvolution<float>;
  using F16 = PlainConvolution<Half>;
  using BF16 = PlainConvolution<Brain>;
  return {op,
          {{"cudnn", ByType<Prepare<Dnn, shape, Body::template Call<Dnn, float>>,
                            Prepare<Dnn, shape, Body::template Call<Dnn, Half>>,
                            Prepare<Dnn, shape, Body::template Call<Dnn, Brain>>>},
           {"plain", ByType<Prepare<F32, shape, Body::template Call<F32, float>>,
                            Prepare<F16, shape, Body::template Call<F16, Half>>,
                            Prepare<BF16, shape, Body::template Call<BF16, Brain>>>}}};
}

}  // namespace

std::vector<KernelRow> ConvCudaRows() {
  return {Row<Forward, ConvShapeOf>("conv2d"), Row<Backward, ConvShapeOf>("conv2d_grad"),
          Row<Transpose, ConvTransposeShapeOf>("conv2d_transpose"),
          Row<TransposeBackward, ConvTransposeShapeOf>("conv2d_transpose_grad")};
}

}  // namespace tandem
