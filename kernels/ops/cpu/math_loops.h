// Vector loops for activations, pairwise arithmetic and normalised rows, compiled once per
// instruction set. As in loops.h, results do not depend on how a tensor is split. An output may be
// the same memory as an input.
#pragma once

#include <cstdint>

namespace tandem::ops {

struct MathLoops {
  // Activations y = f(x) and their gradients. The argument `at` of a gradient is y for sigmoid and
  // tanh, and x for gelu.
  using Fn = void (*)(const float* x, float* y, int64_t n);
  using GradFn = void (*)(const float* at, const float* gy, float* gx, int64_t n);
  Fn sigmoid, tanh, gelu, gelu_tanh;
  GradFn sigmoid_grad, tanh_grad, gelu_grad, gelu_tanh_grad;

  using PairFn = void (*)(const float* x, const float* y, float* out, int64_t n);
  PairFn sub, div, max;
  // Compute the gradients of x / y and max(x, y) with respect to x and y. `g`: the gradient of the
  // result.
  using PairGradFn = void (*)(const float* x, const float* y, const float* g, float* out,
                              int64_t n);
  PairGradFn div_grad_x, div_grad_y, max_grad_x, max_grad_y;

  // Computes y = exp(x - max x) / sum of exp(x - max x) for a row of n >= 1 elements.
  void (*softmax_row)(const float* x, float* y, int64_t n);
  // Computes gx = y (gy - sum of y gy), the gradient of softmax_row.
  GradFn softmax_row_grad;

  // A block of scores x [rows, n] of attention, row-major. Row r keeps its first kept + r * step
  // elements, at most n; the others are masked. A score is alpha * x.
  struct ScoreBlock {
    int64_t rows, n, kept, step;
    float alpha;
  };
  // Continues the softmax of each row by one block (Milakov and Gimelshein, "Online normalizer
  // calculation for softmax", 2018). Replaces x by exp(score - max), masked elements by 0. Updates
  // max[r] and sum[r], the largest score and the sum of exponentials of row r up to this block. If
  // the maximum grows, multiplies sum[r] and the row out[r] of `out_n` elements by the exponential
  // of the difference. `first`: the block is the first one of its rows. REQUIRES: in the first
  // block, each row has an element that is not masked.
  void (*softmax_block)(const ScoreBlock& block, bool first, float* x, float* max, float* sum,
                        float* out, int64_t out_n);
  // Computes the gradient of a block of scores. Replaces x by the weights y = exp(score -
  // log_sum[r]), and their gradient gy by that of x, which is alpha * y * (gy - dot[r]). Masked
  // elements of both become 0.
  void (*softmax_block_grad)(const ScoreBlock& block, const float* log_sum, const float* dot,
                             float* x, float* gy);
  // Computes out[r] = sum of x[r] y[r], for `rows` rows of n elements.
  void (*row_dots)(const float* x, const float* y, float* out, int64_t rows, int64_t n);

  // Dropout: y[i] = x[i] * scale, except that y[i] = 0 if word (first + i) of the random stream
  // `key` is below drop_below. Word j is Philox(key, j / 4)[j % 4] (common/base/rng.h).
  void (*dropout)(const float* x, float* y, int64_t n, uint64_t key, uint64_t first,
                  uint32_t drop_below, float scale);

  // Fills `rows` rows of n normally distributed numbers: out[r][i] = NormalAt(key, first[r] + i) of
  // common/base/rng.h, with an error below 1e-6 (1 + |out|). The loop has its own logarithm and
  // cosine, so that all instruction sets give the same bits.
  void (*normal)(uint64_t key, const uint64_t* first, int64_t rows, float* out, int64_t n);

  // Computes mean and variance of a row, n >= 1. The variance is the biased one: the sum of squared
  // deviations divided by n, not by n - 1.
  void (*moments)(const float* x, int64_t n, float* mean, float* variance);
  // Computes y = (x - mean) r * scale + bias for a row. nullptr as `scale` means 1, nullptr as
  // `bias` means 0.
  void (*normalize_row)(const float* x, float mean, float r, const float* scale, const float* bias,
                        float* y, int64_t n);
  // Computes the gradients of normalize_row, if `mean` and the variance in r are the statistics of
  // the row x. r is 1 / sqrt(variance + epsilon). Writes gx, and adds to gscale and gbias. Each of
  // these three may be nullptr. The computation of gx needs `scale`.
  void (*normalize_row_grad)(const float* x, float mean, float r, const float* scale,
                             const float* gy, float* gx, float* gscale, float* gbias, int64_t n);
};

// Returns the loops for the best instruction set of this machine.
const MathLoops& BestMathLoops();

extern const MathLoops kMathLoopsBase, kMathLoopsAvx2, kMathLoopsAvx512;

}  // namespace tandem::ops
