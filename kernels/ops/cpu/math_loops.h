// Vector loops of activations, pairwise arithmetic and normalised rows, compiled once per
// instruction set like those of loops.h, with the same promise. Outputs may be the inputs.
#pragma once

#include <cstdint>

namespace tandem {

struct MathLoops {
  // y = f(x); the gradients of sigmoid and tanh take y, those of gelu take x, as `at`.
  using Fn = void (*)(const float* x, float* y, int64_t n);
  using GradFn = void (*)(const float* at, const float* gy, float* gx, int64_t n);
  Fn sigmoid, tanh, gelu, gelu_tanh;
  GradFn sigmoid_grad, tanh_grad, gelu_grad, gelu_tanh_grad;

  using PairFn = void (*)(const float* x, const float* y, float* out, int64_t n);
  PairFn sub, div, max;
  // Parts of g that go to x and to y.
  using PairGradFn = void (*)(const float* x, const float* y, const float* g, float* out,
                              int64_t n);
  PairGradFn div_grad_x, div_grad_y, max_grad_x, max_grad_y;

  // y = exp(x - max x) / its sum, n >= 1.
  void (*softmax_row)(const float* x, float* y, int64_t n);
  // gx = y (gy - sum y gy)
  GradFn softmax_row_grad;

  // Of dropout: y = x * scale, or 0 where word (first + i) of the stream `key` is below drop_below.
  // Word j is Philox(key, j / 4)[j % 4] (common/base/rng.h).
  void (*dropout)(const float* x, float* y, int64_t n, uint64_t key, uint64_t first,
                  uint32_t drop_below, float scale);

  // Rows of n: out[r][i] = NormalAt(key, first[r] + i) of common/base/rng.h to 1e-6, by a logarithm
  // and a cosine of its own: the same bits by every table.
  void (*normal)(uint64_t key, const uint64_t* first, int64_t rows, float* out, int64_t n);

  // Mean and variance (of all n, not n - 1) of a row, n >= 1.
  void (*moments)(const float* x, int64_t n, float* mean, float* variance);
  // y = (x - mean) r * scale + bias; scale and bias may be nullptr: 1 and 0.
  void (*normalize_row)(const float* x, float mean, float r, const float* scale, const float* bias,
                        float* y, int64_t n);
  // Of normalize_row with its own mean and variance, r = 1 / sqrt(variance + epsilon): gx, and what
  // is added to the gradients of scale and bias; any of the three may be nullptr.
  void (*normalize_row_grad)(const float* x, float mean, float r, const float* scale,
                             const float* gy, float* gx, float* gscale, float* gbias, int64_t n);
};

// The table for the best instruction set of this machine.
const MathLoops& BestMathLoops();

extern const MathLoops kMathLoopsBase, kMathLoopsAvx2, kMathLoopsAvx512;

}  // namespace tandem
