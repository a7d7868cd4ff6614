// CUDA kernels of conv2d, with and without relu, and of conv2d_transpose. They use cuDNN, and plain
// loops if cuDNN does not support a case. Definitions are in conv2d.cc and conv2d_transpose.cc.
#include "kernels/ops/conv/conv2d.h"
#include "kernels/ops/conv/conv_dnn_cuda.h"
#include "kernels/ops/conv/conv_plain_cuda.h"
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_reduce.h"

namespace tandem::ops {
namespace {

// ---- cuDNN, or plain loops if cuDNN does not support a case -------------------------------------

// Computes a convolution with cuDNN. If cuDNN rejects the case in the first run, all later runs use
// plain loops. CUDA graphs are recorded after the first run, so they contain the final choice.
template <typename T>
class DnnOrPlain {
 public:
  static StatusOr<DnnOrPlain> Make(const OpView& view, const ConvShape& s,
                                   const PrepareContext& ctx, const ConvParts& parts) {
    DnnOrPlain both;
    TD_ASSIGN_OR_RETURN(both.dnn_, DnnConvolution::Make(view, s, ctx, parts));
    TD_ASSIGN_OR_RETURN(both.plain_, PlainConvolution<T>::Make(view, s, ctx, parts));
    return both;
  }
  size_t workspace() const { return dnn_.workspace(); }
  Status Forward(const KernelArgs& args, const void* x, const void* w, void* y) {
    const auto run = [&](auto& conv) { return conv.Forward(args, x, w, y); };
    return First(forward_refused_, run);
  }
  // Computes the output and its epilogue if one cuDNN plan does both. nullopt: there is no such
  // plan, and nothing was computed.
  std::optional<Status> ForwardFused(const KernelArgs& args, const void* x, const void* w,
                                     const float* bias, void* y) {
    if (!dnn_.fused() || forward_refused_) return std::nullopt;
    Status status = dnn_.Forward(args, x, w, y, bias);
    forward_refused_ = status.code() == StatusCode::kUnimplemented;
    return forward_refused_ ? std::nullopt : std::optional(std::move(status));
  }
  Status Input(const KernelArgs& args, const void* x, const void* w, const void* gy, void* gx) {
    const auto run = [&](auto& conv) { return conv.Input(args, x, w, gy, gx); };
    return First(input_refused_, run);
  }
  Status Filter(const KernelArgs& args, const void* x, const void* gy, void* gw) {
    const auto run = [&](auto& conv) { return conv.Filter(args, x, gy, gw); };
    return First(filter_refused_, run);
  }

 private:
  template <typename Fn>
  Status First(bool& refused, const Fn& run) {
    const Status status = refused ? OkStatus() : run(dnn_);
    refused |= status.code() == StatusCode::kUnimplemented;
    return refused ? run(plain_) : status;
  }

  DnnConvolution dnn_;
  PlainConvolution<T> plain_;
  bool forward_refused_ = false, input_refused_ = false, filter_refused_ = false;
};

// ---- Kernels of the operators -------------------------------------------------------------------

template <typename Conv>
struct State {
  Conv conv;
  ConvShape s;
  bool relu;  // apply relu to Output

  // Returns true if Output has channels last.
  bool last() const { return s.out_layout == ImageLayout::kLast; }
  MiddleSums channels() const {
    if (last()) return {s.batch * s.out_plane(), s.out_c, 1};
    return {s.batch, s.out_c, s.out_plane()};
  }
};

template <typename Conv, typename T>
Status Run(State<Conv>& st, const KernelArgs& args) {
  const float* bias = In<float>(args, 2);
  if constexpr (!std::is_same_v<Conv, PlainConvolution<T>>) {
    const auto fused = st.conv.ForwardFused(args, args.in[0], args.in[1], bias, args.out[0]);
    if (fused.has_value()) return *fused;
  }
  TD_RETURN_IF_ERROR(st.conv.Forward(args, args.in[0], args.in[1], args.out[0]));
  if (bias == nullptr && !st.relu) return OkStatus();
  T* out = Out<T>(args, 0);
  const int64_t inner = st.last() ? 1 : st.s.out_plane(), channels = st.s.out_c;
  const bool relu = st.relu;
  return ForEach(args, st.s.batch * channels * st.s.out_plane(), [=] __device__(int64_t i) {
    float v = Wide(out[i]);
    if (bias != nullptr) v += bias[Remainder(Quotient(i, inner), channels)];
    out[i] = Narrow<T>(relu && 0.0f > v ? 0.0f : v);
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

// A transposed convolution computes the input gradient of a convolution. The operator's Input is
// the output of this convolution.
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
          ConvParts (*PartsOf)(const OpView&), Status (*Body)(State<Conv>&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ShapeOf(view));
  if (s.batch * s.in_plane() * s.in_c * s.out_c == 0)
    return Unimplemented("this kernel does not support tensors without elements");
  const ConvParts parts = PartsOf(view);
  State<Conv> state{{}, s, parts.epilogue.relu};
  TD_ASSIGN_OR_RETURN(state.conv, Conv::Make(view, s, ctx, parts));
  const size_t scratch = std::max(state.conv.workspace(), state.channels().scratch_bytes());
  return MakeKernel<State<Conv>, Body>(std::move(state), scratch);
}

// Template arguments of Row: the body of each kernel, and the parts of a convolution that the
// kernel computes.
template <bool relu>
struct Forward {
  static ConvParts Parts(const OpView& view) {
    return {.output = true, .epilogue = {.bias = view.has_in(2), .relu = relu}};
  }
  template <typename Conv, typename T>
  static Status Call(State<Conv>& s, const KernelArgs& args) {
    return Run<Conv, T>(s, args);
  }
};
struct Backward {
  static ConvParts Parts(const OpView& view) {
    return {.input_grad = view.has_out(0), .filter_grad = view.has_out(1)};
  }
  template <typename Conv, typename T>
  static Status Call(State<Conv>& s, const KernelArgs& args) {
    return RunGrad<Conv, T>(s, args);
  }
};
struct Transpose {
  static ConvParts Parts(const OpView&) { return {.input_grad = true}; }
  template <typename Conv, typename T>
  static Status Call(State<Conv>& s, const KernelArgs& args) {
    return RunTranspose<Conv, T>(s, args);
  }
};
struct TransposeBackward {
  static ConvParts Parts(const OpView& view) {
    return {.output = view.has_out(0), .filter_grad = view.has_out(1)};
  }
  template <typename Conv, typename T>
  static Status Call(State<Conv>& s, const KernelArgs& args) {
    return RunTransposeGrad<Conv, T>(s, args);
  }
};

template <typename Body, StatusOr<ConvShape> (*shape)(const OpView&)>
KernelRegistration Row(const char* op) {
  using Half = __half;
  using Brain = __nv_bfloat16;
  using Dnn32 = DnnOrPlain<float>;
  using Dnn16 = DnnOrPlain<Half>;
  using DnnB16 = DnnOrPlain<Brain>;
  using F32 = PlainConvolution<float>;
  using F16 = PlainConvolution<Half>;
  using BF16 = PlainConvolution<Brain>;
  return {
      op,
      {{"cudnn", ByType<Prepare<Dnn32, shape, Body::Parts, Body::template Call<Dnn32, float>>,
                        Prepare<Dnn16, shape, Body::Parts, Body::template Call<Dnn16, Half>>,
                        Prepare<DnnB16, shape, Body::Parts, Body::template Call<DnnB16, Brain>>>},
       {"plain", ByType<Prepare<F32, shape, Body::Parts, Body::template Call<F32, float>>,
                        Prepare<F16, shape, Body::Parts, Body::template Call<F16, Half>>,
                        Prepare<BF16, shape, Body::Parts, Body::template Call<BF16, Brain>>>}}};
}

}  // namespace

std::vector<KernelRegistration> ConvCudaRows() {
  return {Row<Forward<false>, ConvShapeOf>("conv2d"),
          Row<Forward<true>, ConvShapeOf>("conv2d_relu"), Row<Backward, ConvShapeOf>("conv2d_grad"),
          Row<Transpose, ConvTransposeShapeOf>("conv2d_transpose"),
          Row<TransposeBackward, ConvTransposeShapeOf>("conv2d_transpose_grad")};
}

}  // namespace tandem::ops
