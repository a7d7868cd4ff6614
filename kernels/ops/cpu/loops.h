// Vector loops over contiguous f32, compiled once per instruction set. The best version for this
// machine is selected when a kernel is prepared, so that one binary runs on any x86-64.
//
// Every element is computed with the same IEEE operations in body and tail, without contraction.
// The results of elementwise loops therefore do not depend on how a tensor is split. Outputs may be
// the inputs.
#pragma once

#include <cstdint>

namespace tandem {

struct Loops {
  const char* isa;
  void (*relu)(const float* x, float* y, int64_t n);
  void (*relu_grad)(const float* y, const float* gy, float* gx, int64_t n);
  void (*add)(const float* x, const float* y, float* out, int64_t n);
  void (*mul)(const float* x, const float* y, float* out, int64_t n);
  void (*add_one)(const float* x, float y, float* out, int64_t n);              // x[i] + y
  void (*scale)(const float* x, float scale, float bias, float* y, int64_t n);  // scale x[i] + bias
  // Sets every row of out [rows, n] to `row`.
  void (*fill_rows)(const float* row, float* out, int64_t rows, int64_t n);
  // out[j] = sum over i, in order, of x[i, j].
  void (*sum_rows)(const float* x, float* out, int64_t rows, int64_t n);
  // Sum of x in 16 lanes by index modulo 16. The lanes are then added in order.
  float (*sum)(const float* x, int64_t n);
  float (*max)(const float* x, int64_t n);  // n >= 1
  // out[i] = exp(x[i] - shift), with a relative error below 3e-7; 0 for arguments below -87.
  void (*exp_shifted)(const float* x, float shift, float* out, int64_t n);
  // out [cols, rows] is the transpose of x [rows, cols].
  void (*transpose)(const float* x, float* out, int64_t rows, int64_t cols);
  // Max pooling with 2x2 windows and stride 2 over one plane [2 oh, iw]: out [oh, ow], iw >= 2 ow.
  void (*max_pool2)(const float* x, float* out, int64_t iw, int64_t oh, int64_t ow);
  // Gradient of max_pool2. All of gx [ih, iw] is written.
  void (*max_pool2_grad)(const float* x, const float* y, const float* gy, float* gx, int64_t ih,
                         int64_t iw, int64_t oh, int64_t ow);
};

// Returns the table for the best instruction set of this machine.
const Loops& BestLoops();

}  // namespace tandem
