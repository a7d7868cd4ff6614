// Vector loops over contiguous f32, compiled once per instruction set; the best one that this
// machine runs is picked when a kernel is prepared, so that one binary starts on any x86-64.
//
// Every element is computed by the same IEEE operations in body and tail, without contraction: the
// result of the elementwise ones depends on how a tensor is cut in no way. Outputs may be the
// inputs.
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
  // Every row of out [rows, n] becomes `row`.
  void (*fill_rows)(const float* row, float* out, int64_t rows, int64_t n);
  // out[j] = sum over i, in order, of x[i, j].
  void (*sum_rows)(const float* x, float* out, int64_t rows, int64_t n);
  // Sum of x in 16 lanes by index modulo 16, the lanes then added in order.
  float (*sum)(const float* x, int64_t n);
  float (*max)(const float* x, int64_t n);  // n >= 1
  // out[i] = exp(x[i] - shift), relative error below 3e-7; 0 below -87.
  void (*exp_shifted)(const float* x, float shift, float* out, int64_t n);
  // out [cols, rows] = transposed x [rows, cols].
  void (*transpose)(const float* x, float* out, int64_t rows, int64_t cols);
  // Windows of 2x2, stride 2, over one plane [2 oh, iw]: out [oh, ow], iw >= 2 ow.
  void (*max_pool2)(const float* x, float* out, int64_t iw, int64_t oh, int64_t ow);
  // Gradient of the same; gx [ih, iw] is written in full.
  void (*max_pool2_grad)(const float* x, const float* y, const float* gy, float* gx, int64_t ih,
                         int64_t iw, int64_t oh, int64_t ow);
};

// The table for the best instruction set of this machine.
const Loops& BestLoops();

}  // namespace tandem
