// Computes convolutions of bf16 images in NHWC as matrix products. Each pixel is a row.
//
// Measured on Sapphire Rapids (AMX) with oneDNN 2.6, 2 threads and the shapes of ResNet-50. Matrix
// products reach 250 to 540 GFLOP/s. oneDNN's own filter gradient reaches 15 to 65 GFLOP/s. The
// exception is 3x3 filters with stride 1 and at least 28 outputs per row: oneDNN reaches 190 to 275
// GFLOP/s, a matrix product 155. CPUs without AMX were not measured and do not use matrix products.
#pragma once

#include <cstddef>

#include "common/tensor/types.h"
#include "kernels/ops/conv/conv2d.h"

namespace tandem::ops {

class DnnlProgram;

// Returns true if this CPU has AMX, and the output and the gradients are matrix products of the
// stored tensors, without copies. This requires bf16 images in NHWC, one group, and 1x1 filters
// with stride 1 and without padding.
bool IsPointwise(const ConvShape& s, DType dtype);

// Adds the computation of output 0 from inputs 0 (Input), 1 (Filter) and, if with_bias is true, 2
// (Bias, f32).
void AddPointwiseOutput(DnnlProgram& program, const ConvShape& s, bool with_bias);
// Adds the computation of output 0 (Input@GRAD) from inputs 1 (Filter) and 2 (Output@GRAD).
void AddPointwiseInputGrad(DnnlProgram& program, const ConvShape& s);

// The unfolded input (im2col), a matrix [n oh ow, kh kw c]. Each row contains the input values that
// one output pixel uses.
class Columns {
 public:
  explicit Columns(const ConvShape& s, int threads);
  // Returns true if the filter's gradient is computed faster from the unfolded input than by
  // oneDNN.
  static bool Serve(const ConvShape& s, DType dtype);

  // Returns true if the unfolded input equals the input, so that Gather is not needed.
  bool trivial() const { return trivial_; }
  size_t bytes() const;
  void Gather(const void* input, void* columns) const;

 private:
  const ConvShape s_;
  const bool trivial_;
  const int parts_;
};

// Adds the computation of output 1 (the filter's gradient) from kernel input `columns` (the
// unfolded input) and input 2 (Output@GRAD).
void AddFilterGradOfColumns(DnnlProgram& program, const ConvShape& s, int columns);

}  // namespace tandem::ops
