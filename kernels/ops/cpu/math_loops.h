// Vector loops for activations, pairwise arithmetic and normalised rows, compiled once per
// instruction set. They give the same guarantees as loops.h. Outputs may be the inputs.
#pragma once

#include <cstdint>

namespace tandem {

struct MathLoops {
  // y = f(x). The argument `at` of the gradients is y for sigmoid and tanh, x for gelu.
  using Fn = void (*)(const float* x, float* y, int64_t n);
  using GradFn = void (*)(const float* at, const float* gy, float* gx, int64_t n);
  Fn sigmoid, tanh, gelu, gelu_tanh;
  GradFn sigmoid_grad, tanh_grad, gelu_grad, gelu_tanh_grad;

  using PairFn = void (*)(const float* x, const float* y, float* out, int64_t n);
  PairFn sub, div, max;
  // The parts of g for x and for y.
  using PairGradFn = void (*)(const float* x, const float* y, const float* g, float* out,
                              int64_t n);
  PairGradFn div_grad_x, div_grad_y, max_grad_x, max_grad_y;

  // y = exp(x - max x) / sum of exp(x - max x), n >= 1.
  void (*softmax_row)(const float* x, float* y, int64_t n);
  // gx = y (gy - sum y gy)
  GradFn softmax_row_grad;

  // Dropout: y = x * scale, or 0 if word (first + i) of the stream `key` is below drop_below. Word
  // j is Philox(key, j / 4)[j % 4] (common/base/rng.h).
  void (*dropout)(const float* x, float* y, int64_t n, uint64_t key, uint64_t first,
                  uint32_t drop_below, float scale);

  // Rows of n: out[r][i] = NormalAt(key, first[r] + i) of common/base/rng.h, to 1e-6. Uses its own
  // logarithm and cosine, so all tables give the same bits.
  void (*normal)(uint64_t key, const uint64_t* first, int64_t rows, float* out, int64_t n);

  // Mean and variance (divided by n, not n - 1) of a row, n >= 1.
  void (*moments)(const float* x, int64_t n, float* mean, float* variance);
  // y = (x - mean) r * scale + bias. scale may be nullptr (1), bias may be nullptr (0).
  void (*normalize_row)(const float* x, float mean, float r, const float* scale, const float* bias,
                        float* y, int64_t n);
  // Gradient of normalize_row with the row's mean and variance, r = 1 / sqrt(variance + epsilon).
  // Writes gx and adds to the gradients of scale and bias. Each of the three may be nullptr.
  void (*normalize_row_grad)(const float* x, float mean, float r, const float* scale,
                             const float* gy, float* gx, float* gscale, float* gbias, int64_t n);
};

// Returns the table for the best instruction set of this machine.
const MathLoops& BestMathLoops();

extern const MathLoops kMathLoopsBase, kMathLoopsAvx2, kMathLoopsAvx512;

}  // namespace tandem
