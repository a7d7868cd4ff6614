#include "kernels/ops/conv/conv_dnn_cuda.h"

#include <algorithm>

#include "kernels/ops/cuda/cuda_reduce.h"

namespace tandem::ops {

template <typename Bits>
Status FilterTransposer::TurnAs(const KernelArgs& args, const void* from, void* to,
                                bool back) const {
  const auto* in = static_cast<const Bits*>(from);
  auto* out = static_cast<Bits*>(to);
  const int64_t rows = back ? channels : taps, columns = back ? taps : channels;
  return ForEach(args, filters * rows * columns, [=] __device__(int64_t i) {
    const int64_t row = Quotient(i, columns), filter = Quotient(row, rows);
    out[i] = in[(filter * columns + i - row * columns) * rows + row - filter * rows];
  });
}

Status FilterTransposer::Turn(const KernelArgs& args, const void* from, void* to, bool back) const {
  return element_bytes == sizeof(uint16_t) ? TurnAs<uint16_t>(args, from, to, back)
                                           : TurnAs<uint32_t>(args, from, to, back);
}

StatusOr<DnnConvolution> DnnConvolution::Make(const OpView& view, const ConvShape& s,
                                              const PrepareContext& ctx, const ConvParts& parts) {
  if (s.relu_first)
    return Unimplemented("this kernel does not support fuse_relu_before_depthwise_conv");
  const bool last = s.in_layout == ImageLayout::kLast && s.out_layout == ImageLayout::kLast;
  if (!s.plain() && !last)
    return Unimplemented("this kernel does not support different layouts of Input and Output");
  DnnConvolution c;
  const DType dtype = view.in(0).dtype;
  TD_RETURN_IF_ERROR(c.Describe(s, dtype, last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW));
  const int64_t channels = s.in_c / s.groups, taps = s.kernel[0] * s.kernel[1];
  if (last && channels > 1 && taps > 1) c.filter_ = {s.out_c, channels, taps, SizeOf(dtype)};
  const DnnConvProblem p{view, s, ctx, c.d_, last && dtype != DType::kF32};
  if (parts.output) TD_RETURN_IF_ERROR(c.output_.Prepare(p, parts.epilogue));
  if (parts.input_grad) TD_RETURN_IF_ERROR(c.input_grad_.Prepare(p));
  if (parts.filter_grad) TD_RETURN_IF_ERROR(c.filter_grad_.Prepare(p));
  c.workspace_ =
      std::max({c.output_.workspace(), c.input_grad_.workspace(), c.filter_grad_.workspace()});
  return c;
}

Status DnnConvolution::Describe(const ConvShape& s, DType dtype, cudnnTensorFormat_t format) {
  TD_ASSIGN_OR_RETURN(d_.x, MakeDnn(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor));
  TD_ASSIGN_OR_RETURN(d_.y, MakeDnn(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor));
  TD_ASSIGN_OR_RETURN(d_.w, MakeDnn(cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor));
  TD_ASSIGN_OR_RETURN(d_.conv,
                      MakeDnn(cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor));
  const auto i = [](int64_t n) { return static_cast<int>(n); };
  const cudnnDataType_t type = DnnTypeOf(dtype);
  TD_RETURN_IF_ERROR(DnnStatus(cudnnSetTensor4dDescriptor(d_.x.get(), format, type, i(s.batch),
                                                          i(s.in_c), i(s.in[0]), i(s.in[1])),
                               "input"));
  TD_RETURN_IF_ERROR(DnnStatus(cudnnSetTensor4dDescriptor(d_.y.get(), format, type, i(s.batch),
                                                          i(s.out_c), i(s.out[0]), i(s.out[1])),
                               "output"));
  TD_RETURN_IF_ERROR(
      DnnStatus(cudnnSetFilter4dDescriptor(d_.w.get(), type, format, i(s.out_c),
                                           i(s.in_c / s.groups), i(s.kernel[0]), i(s.kernel[1])),
                "filter"));
  TD_RETURN_IF_ERROR(DnnStatus(
      cudnnSetConvolution2dDescriptor(d_.conv.get(), i(s.pad[0]), i(s.pad[1]), i(s.stride[0]),
                                      i(s.stride[1]), i(s.dilation[0]), i(s.dilation[1]),
                                      CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      "convolution"));
  TD_RETURN_IF_ERROR(
      DnnStatus(cudnnSetConvolutionGroupCount(d_.conv.get(), i(s.groups)), "groups"));
  // Products of f32 must not use TF32.
  const auto math = dtype == DType::kF32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
  return DnnStatus(cudnnSetConvolutionMathType(d_.conv.get(), math), "math type");
}

}  // namespace tandem::ops
