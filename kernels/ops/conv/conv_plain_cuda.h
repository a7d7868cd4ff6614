// Convolutions by plain CUDA loops, for cases that cuDNN does not support and for comparison with
// cuDNN. One thread computes one element of the result. For the filter's gradient, one block
// computes one element.
#pragma once

#include "kernels/ops/conv/conv2d.h"
#include "kernels/ops/conv/conv_graph.h"
#include "kernels/ops/cuda/cuda_reduce.h"
#include "kernels/ops/cuda/images_cuda.h"

namespace tandem::ops {

// Computes x [n, in_c, ..] * w -> y [n, out_c, ..] and its two gradients. Images are NCHW or NHWC.
// Elements have type T, sums are f32. All pointers are device pointers.
template <typename T>
class PlainConvolution {
 public:
  static StatusOr<PlainConvolution> Make(const OpView& view, const ConvShape& s,
                                         const PrepareContext& ctx, const ConvParts& parts);

  PlainConvolution() = default;
  size_t workspace() const { return 0; }
  Status Forward(const KernelArgs& args, const void* x, const void* w, void* y) const;
  // Computes gx, the gradient of the input. `x` may be nullptr if s.relu_first is false.
  Status Input(const KernelArgs& args, const void* x, const void* w, const void* gy,
               void* gx) const;
  Status Filter(const KernelArgs& args, const void* x, const void* gy, void* gw) const;

 private:
  explicit PlainConvolution(const ConvShape& s);
  CudaImages w() const { return {s_.in_c / s_.groups, s_.kernel[0], s_.kernel[1], false}; }

  ConvShape s_{};
  CudaImages x_{}, y_{};
};

extern template class PlainConvolution<float>;
extern template class PlainConvolution<__half>;
extern template class PlainConvolution<__nv_bfloat16>;

}  // namespace tandem::ops
