// Vector loops over contiguous f32, compiled once per instruction set. The best version for this
// machine is selected when a kernel is prepared, so that one binary runs on any x86-64.
//
// Every element is computed with the same IEEE operations, also the elements after the last full
// vector. Multiplications and additions are not contracted to fused multiply-adds. Therefore the
// results of elementwise loops do not depend on how a tensor is split. An output may be the same
// memory as an input.
#pragma once

#include <cstdint>

namespace tandem::ops {

struct Loops {
  const char* isa;
  void (*relu)(const float* x, float* y, int64_t n);
  void (*relu_grad)(const float* y, const float* gy, float* gx, int64_t n);
  void (*add)(const float* x, const float* y, float* out, int64_t n);
  void (*mul)(const float* x, const float* y, float* out, int64_t n);
  void (*add_one)(const float* x, float y, float* out, int64_t n);  // out[i] = x[i] + y
  // Computes y[i] = scale * x[i] + bias.
  void (*scale)(const float* x, float scale, float bias, float* y, int64_t n);
  // Sets every row of out [rows, n] to `row`.
  void (*fill_rows)(const float* row, float* out, int64_t rows, int64_t n);
  // Computes the sum of each column: out[j] = sum over i, in order, of x[i, j].
  void (*sum_rows)(const float* x, float* out, int64_t rows, int64_t n);
  // Returns the sum of x. Element i is added to lane i % 16. The 16 lanes are then added in order.
  float (*sum)(const float* x, int64_t n);
  float (*max)(const float* x, int64_t n);  // returns the largest of n >= 1 elements
  // Computes out[i] = exp(x[i] - shift), with a relative error below 3e-7. The result is 0 if x[i]
  // - shift is below -87.
  void (*exp_shifted)(const float* x, float shift, float* out, int64_t n);
  // Writes the transpose of x [rows, cols] to out [cols, rows].
  void (*transpose)(const float* x, float* out, int64_t rows, int64_t cols);
  // Computes max pooling with 2x2 windows and stride 2 over one plane x [2 oh, iw]. The result is
  // out [oh, ow], with iw >= 2 ow.
  void (*max_pool2)(const float* x, float* out, int64_t iw, int64_t oh, int64_t ow);
  // Computes the gradient of max_pool2. Every element of gx [ih, iw] is written.
  void (*max_pool2_grad)(const float* x, const float* y, const float* gy, float* gx, int64_t ih,
                         int64_t iw, int64_t oh, int64_t ow);
};

// Returns the loops for the best instruction set of this machine.
const Loops& BestLoops();

}  // namespace tandem::ops
