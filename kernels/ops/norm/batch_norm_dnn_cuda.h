// Batch normalisation for training with cuDNN.
#pragma once

#include "kernels/ops/cuda/dnn_cuda.h"

namespace tandem::ops {

// A batch normalisation by cuDNN. X is [images, channels, plane], or [images, plane, channels] with
// channels last. All pointers are device pointers. Inputs must not share memory with outputs.
class DnnBatchNorm {
 public:
  struct Shape {
    int64_t images, channels, plane;
    bool channels_last;
  };
  // `persistent`: value of the knob cudnn_batchnorm_spatial_persistent.
  static StatusOr<DnnBatchNorm> Make(const Shape& s, DType dtype, double epsilon, bool persistent);

  DnnBatchNorm() = default;
  // Computes y and the saved statistics, but no running statistics. saved_inv becomes 1 /
  // sqrt(variance + epsilon). The variance is the biased one: the sum of squared deviations divided
  // by n.
  Status Forward(const KernelArgs& args, const void* x, const float* scale, const float* bias,
                 void* y, float* saved_mean, float* saved_inv) const;
  Status Backward(const KernelArgs& args, const void* x, const void* gy, const float* scale,
                  const float* saved_mean, const float* saved_inv, void* gx, float* gscale,
                  float* gbias) const;

 private:
  double epsilon_ = 0;
  cudnnBatchNormMode_t mode_ = CUDNN_BATCHNORM_SPATIAL;
  OwnedDnn<cudnnTensorDescriptor_t> x_, channel_;
};

}  // namespace tandem::ops
