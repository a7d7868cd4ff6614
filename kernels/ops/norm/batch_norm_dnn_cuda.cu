#include "kernels/ops/norm/batch_norm_dnn_cuda.h"

namespace tandem::ops {

StatusOr<DnnBatchNorm> DnnBatchNorm::Make(const Shape& s, DType dtype, double epsilon,
                                          bool persistent) {
  if (s.images * s.channels * s.plane > INT32_MAX)
    return Unimplemented("this kernel does not support more than 2^31 elements");
  DnnBatchNorm norm;
  norm.epsilon_ = epsilon;
  norm.mode_ = persistent ? CUDNN_BATCHNORM_SPATIAL_PERSISTENT : CUDNN_BATCHNORM_SPATIAL;
  TD_ASSIGN_OR_RETURN(norm.x_, MakeDnn(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor));
  TD_ASSIGN_OR_RETURN(norm.channel_,
                      MakeDnn(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor));
  const auto i = [](int64_t n) { return static_cast<int>(n); };
  TD_RETURN_IF_ERROR(DnnStatus(
      cudnnSetTensor4dDescriptor(norm.x_.get(),
                                 s.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                 DnnTypeOf(dtype), i(s.images), i(s.channels), i(s.plane), 1),
      "images"));
  TD_RETURN_IF_ERROR(DnnStatus(
      cudnnDeriveBNTensorDescriptor(norm.channel_.get(), norm.x_.get(), norm.mode_), "channels"));
  return norm;
}

Status DnnBatchNorm::Forward(const KernelArgs& args, const void* x, const float* scale,
                             const float* bias, void* y, float* saved_mean,
                             float* saved_inv) const {
  const float one = 1.0f, zero = 0.0f;
  return DnnStatus(cudnnBatchNormalizationForwardTraining(
                       StreamOf(args).dnn, mode_, &one, &zero, x_.get(), x, x_.get(), y,
                       channel_.get(), scale, bias,
                       /*factor=*/0.0, nullptr, nullptr, epsilon_, saved_mean, saved_inv),
                   "batch normalisation");
}

Status DnnBatchNorm::Backward(const KernelArgs& args, const void* x, const void* gy,
                              const float* scale, const float* saved_mean, const float* saved_inv,
                              void* gx, float* gscale, float* gbias) const {
  const float one = 1.0f, zero = 0.0f;
  return DnnStatus(
      cudnnBatchNormalizationBackward(StreamOf(args).dnn, mode_, &one, &zero, &one, &zero, x_.get(),
                                      x, x_.get(), gy, x_.get(), gx, channel_.get(), scale, gscale,
                                      gbias, epsilon_, saved_mean, saved_inv),
      "gradients of batch normalisation");
}

}  // namespace tandem::ops
