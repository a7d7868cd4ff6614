// Convolutions of bf16 images that lie NHWC as matrix products of oneDNN: a pixel is a row.
//
// Measured on Sapphire Rapids (AMX) with oneDNN 2.6, 2 threads, the shapes of ResNet-50: products
// compute 250 to 540 GFLOP/s. oneDNN's own gradient of a filter has 15 to 65; only where filters
// are 3x3 with stride 1 and a row has 28 outputs or more it has 190 to 275 itself, and a product
// 155. Without AMX nothing is known, and nobody takes these.
#pragma once

#include <cstddef>

#include "common/tensor/types.h"
#include "kernels/ops/conv/conv2d.h"

namespace tandem {

class DnnlProgram;

// Whether output and gradients are products of the tensors as they lie: 1x1 filters, stride 1.
bool IsPointwise(const ConvShape& s, DType dtype);

// Output 0 from inputs 0 (Input), 1 (Filter) and, with_bias, 2 (Bias, f32).
void AddPointwiseOutput(DnnlProgram& program, const ConvShape& s, bool with_bias);
// Output 0 from inputs 1 (Filter) and 2 (Output@GRAD).
void AddPointwiseInputGrad(DnnlProgram& program, const ConvShape& s);

// What each output pixel sees of the input, [n oh ow, kh kw c].
class Columns {
 public:
  explicit Columns(const ConvShape& s, int threads);
  // Whether the filter's gradient is faster by them.
  static bool Serve(const ConvShape& s, DType dtype);

  // They are the input itself.
  bool trivial() const { return trivial_; }
  size_t bytes() const;
  void Gather(const void* input, void* columns) const;

 private:
  const ConvShape s_;
  const bool trivial_;
  const int parts_;
};

// Output 1, the filter's gradient, from input `columns` of the kernel and input 2 (Output@GRAD).
void AddFilterGradOfColumns(DnnlProgram& program, const ConvShape& s, int columns);

}  // namespace tandem
