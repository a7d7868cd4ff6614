// Convolutions of bf16 images in NHWC as matrix products of oneDNN. A pixel is a row.
//
// Measured on Sapphire Rapids (AMX) with oneDNN 2.6, 2 threads, shapes of ResNet-50: products reach
// 250 to 540 GFLOP/s. oneDNN's gradient of a filter reaches 15 to 65. The exception is 3x3 filters
// with stride 1 and rows of 28 outputs or more: there oneDNN reaches 190 to 275 and a product 155.
// Without AMX these kernels were not measured and are not used.
#pragma once

#include <cstddef>

#include "common/tensor/types.h"
#include "kernels/ops/conv/conv2d.h"

namespace tandem {

class DnnlProgram;

// Returns true if output and gradients are products of the tensors without unfolding: 1x1 filters
// and stride 1.
bool IsPointwise(const ConvShape& s, DType dtype);

// Computes output 0 from inputs 0 (Input), 1 (Filter) and, if with_bias, 2 (Bias, f32).
void AddPointwiseOutput(DnnlProgram& program, const ConvShape& s, bool with_bias);
// Computes output 0 from inputs 1 (Filter) and 2 (Output@GRAD).
void AddPointwiseInputGrad(DnnlProgram& program, const ConvShape& s);

// The unfolded input (im2col): for each output pixel the input values that it uses, [n oh ow, kh kw
// c].
class Columns {
 public:
  explicit Columns(const ConvShape& s, int threads);
  // Returns true if the filter's gradient is faster with unfolding.
  static bool Serve(const ConvShape& s, DType dtype);

  // Returns true if the columns equal the input.
  bool trivial() const { return trivial_; }
  size_t bytes() const;
  void Gather(const void* input, void* columns) const;

 private:
  const ConvShape s_;
  const bool trivial_;
  const int parts_;
};

// Computes output 1, the filter's gradient, from input `columns` of the kernel and input 2
// (Output@GRAD).
void AddFilterGradOfColumns(DnnlProgram& program, const ConvShape& s, int columns);

}  // namespace tandem
