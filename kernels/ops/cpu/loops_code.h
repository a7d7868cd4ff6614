// The code of the vector loops. Each loops_<isa>.cc includes this file once. Everything in this
// file has internal linkage. The code calls no inline function with external linkage, because the
// linker would merge the copies of such a function. Code for the newest instruction set could then
// run on an older machine.
#ifndef TANDEM_LOOPS
#error "include this from loops_<isa>.cc alone"
#endif
#include "kernels/ops/cpu/loops_isa.h"
#include "kernels/ops/cpu/vector_code.h"
#include "kernels/ops/formulas/activation.h"

namespace tandem::ops {
namespace {

void AddOne(const float* x, float y, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y;
}

void Scale(const float* x, float scale, float bias, float* y, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale + bias;
}

void FillRows(const float* row, float* out, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, out += n) __builtin_memcpy(out, row, n * sizeof(float));
}

void SumRows(const float* x, float* out, int64_t rows, int64_t n) {
  constexpr int64_t kBlock = 64;  // number of columns whose sums are in registers at the same time
  int64_t j = 0;
  for (; j + kBlock <= n; j += kBlock) {
    float acc[kBlock] = {};
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t c = 0; c < kBlock; ++c) acc[c] += x[i * n + j + c];
    }
    for (int64_t c = 0; c < kBlock; ++c) out[j + c] = acc[c];
  }
  if (j == n) return;
  for (int64_t c = j; c < n; ++c) out[c] = 0.0f;
  for (int64_t i = 0; i < rows; ++i) {
    TANDEM_VECTOR_LOOP
    for (int64_t c = j; c < n; ++c) out[c] += x[i * n + c];
  }
}

constexpr int64_t kLanes = 16;

float Sum(const float* x, int64_t n) {
  float lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lane[l] += x[i + l];
  }
  for (int64_t l = 0; i < n; ++i, ++l) lane[l] += x[i];
  float total = 0.0f;
  for (int64_t l = 0; l < kLanes; ++l) total += lane[l];
  return total;
}

float Max(const float* x, int64_t n) {
  float best = x[0];
  int64_t i = 1;
  if (n >= 2 * kLanes) {
    float lane[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) lane[l] = x[l];
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    }
    for (int64_t l = 0; l < kLanes; ++l) best = lane[l] > best ? lane[l] : best;
  }
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

void ExpShifted(const float* x, float shift, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) out[i] = Exp(x[i] - shift);
}

#if TANDEM_LANES == 16
#define TANDEM_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define TANDEM_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif TANDEM_LANES == 8
#define TANDEM_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define TANDEM_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
#define TANDEM_LOW 0, 4, 1, 5
#define TANDEM_HIGH 2, 6, 3, 7
#endif

constexpr int kWidth = TANDEM_LANES;
typedef float Vec __attribute__((vector_size(kWidth * sizeof(float))));

// Transposes one square block. In each of log2(kWidth) steps, row i is interleaved with row i +
// kWidth / 2.
inline void TransposeBlock(const float* x, int64_t x_ld, float* out, int64_t out_ld) {
  Vec a[kWidth], b[kWidth];
  for (int i = 0; i < kWidth; ++i) __builtin_memcpy(&a[i], x + i * x_ld, sizeof(Vec));
#pragma GCC unroll 4
  for (int step = 1; step < kWidth; step *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < kWidth / 2; ++i) {
      b[2 * i] = __builtin_shufflevector(a[i], a[i + kWidth / 2], TANDEM_LOW);
      b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + kWidth / 2], TANDEM_HIGH);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) a[i] = b[i];
  }
  for (int i = 0; i < kWidth; ++i) __builtin_memcpy(out + i * out_ld, &a[i], sizeof(Vec));
}

void Transpose(const float* x, float* out, int64_t rows, int64_t cols) {
  const int64_t rows_full = rows / kWidth * kWidth, cols_full = cols / kWidth * kWidth;
  for (int64_t j = 0; j < cols_full; j += kWidth) {
    for (int64_t i = 0; i < rows_full; i += kWidth) {
      TransposeBlock(x + i * cols + j, cols, out + j * rows + i, rows);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < rows_full ? cols_full : 0; j < cols; ++j) {
      out[j * rows + i] = x[i * cols + j];
    }
  }
}

void MaxPool2(const float* x, float* out, int64_t iw, int64_t oh, int64_t ow) {
  for (int64_t i = 0; i < oh; ++i, out += ow) {
    const float* top = x + 2 * i * iw;
    const float* low = top + iw;
    for (int64_t j = 0; j < ow; ++j) {
      const float a = top[2 * j], b = top[2 * j + 1], c = low[2 * j], d = low[2 * j + 1];
      const float ab = b > a ? b : a, cd = d > c ? d : c;
      out[j] = cd > ab ? cd : ab;
    }
  }
}

struct PoolRow {
  // Pointers to two rows of X, one row of Out, and one row of the gradient of Out.
  const float *top, *low, *y, *gy;
  float *gtop, *glow;
};

// Computes the gradient of `lanes` / 2 windows of a row, starting at window j. Lane 2k contains the
// left column of window k, lane 2k + 1 the right column. The first element of a window that equals
// the maximum gets the gradient. If no element equals the maximum, the last element gets it.
#define TANDEM_POOL_BLOCK(name, lanes, TWICE, SWAP)                          \
  inline void name(const PoolRow& r, int64_t j) {                            \
    typedef float F __attribute__((vector_size(lanes * sizeof(float))));     \
    typedef int32_t M __attribute__((vector_size(lanes * sizeof(float))));   \
    typedef float H __attribute__((vector_size(lanes / 2 * sizeof(float)))); \
    H y, gy;                                                                 \
    F top, low;                                                              \
    __builtin_memcpy(&y, r.y + j, sizeof(H));                                \
    __builtin_memcpy(&gy, r.gy + j, sizeof(H));                              \
    __builtin_memcpy(&top, r.top + 2 * j, sizeof(F));                        \
    __builtin_memcpy(&low, r.low + 2 * j, sizeof(F));                        \
    const F best = __builtin_shufflevector(y, y, TWICE);                     \
    const F g = __builtin_shufflevector(gy, gy, TWICE);                      \
    const M left = {TANDEM_PAIRS_##lanes};                                   \
    const M t = top == best, l = low == best;                                \
    const M t_other = __builtin_shufflevector(t, t, SWAP);                   \
    const M l_other = __builtin_shufflevector(l, l, SWAP);                   \
    const M in_top = t & (left | ~t_other);                                  \
    const M in_low = ~(t | t_other) & ((left & l) | (~left & ~l_other));     \
    const F gtop = (F)(in_top & (M)g), glow = (F)(in_low & (M)g);            \
    __builtin_memcpy(r.gtop + 2 * j, &gtop, sizeof(F));                      \
    __builtin_memcpy(r.glow + 2 * j, &glow, sizeof(F));                      \
  }
#define TANDEM_PAIRS_4 -1, 0, -1, 0
#define TANDEM_PAIRS_8 TANDEM_PAIRS_4, TANDEM_PAIRS_4
#define TANDEM_PAIRS_16 TANDEM_PAIRS_8, TANDEM_PAIRS_8
#define TANDEM_LIST(...) __VA_ARGS__
TANDEM_POOL_BLOCK(PoolBlock2, 4, TANDEM_LIST(0, 0, 1, 1), TANDEM_LIST(1, 0, 3, 2))
TANDEM_POOL_BLOCK(PoolBlock4, 8, TANDEM_LIST(0, 0, 1, 1, 2, 2, 3, 3),
                  TANDEM_LIST(1, 0, 3, 2, 5, 4, 7, 6))
TANDEM_POOL_BLOCK(PoolBlock8, 16, TANDEM_LIST(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                  TANDEM_LIST(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14))

// Computes the gradient of one row in blocks. If the width is not a multiple of the block, the last
// block overlaps the previous block.
template <int windows, void (*Block)(const PoolRow&, int64_t)>
inline void PoolRowGrad(const PoolRow& r, int64_t ow) {
  int64_t j = 0;
  for (; j + windows <= ow; j += windows) Block(r, j);
  if (j < ow) Block(r, ow - windows);
}

inline void PoolWindowGrad(const PoolRow& r) {
  const bool a = r.top[0] == r.y[0];
  const bool b = !a & (r.top[1] == r.y[0]);
  const bool c = !(a | b) & (r.low[0] == r.y[0]);
  r.gtop[0] = a ? r.gy[0] : 0.0f;
  r.gtop[1] = b ? r.gy[0] : 0.0f;
  r.glow[0] = c ? r.gy[0] : 0.0f;
  r.glow[1] = (a | b | c) ? 0.0f : r.gy[0];
}

void MaxPool2Grad(const float* x, const float* y, const float* gy, float* gx, int64_t ih,
                  int64_t iw, int64_t oh, int64_t ow) {
  for (int64_t i = 0; i < oh; ++i) {
    const int64_t at = 2 * i * iw;
    const PoolRow r{x + at, x + at + iw, y + i * ow, gy + i * ow, gx + at, gx + at + iw};
    if (ow >= 8) {
      PoolRowGrad<8, PoolBlock8>(r, ow);
    } else if (ow >= 4) {
      PoolRowGrad<4, PoolBlock4>(r, ow);
    } else if (ow >= 2) {
      PoolRowGrad<2, PoolBlock2>(r, ow);
    } else {
      PoolWindowGrad(r);
    }
    for (int64_t j = 2 * ow; j < iw; ++j) r.gtop[j] = r.glow[j] = 0.0f;
  }
  for (int64_t j = 2 * oh * iw; j < ih * iw; ++j) gx[j] = 0.0f;
}

}  // namespace

const Loops TANDEM_LOOPS = {
    .isa = TANDEM_ISA,
    .relu = UnaryLoop<Relu>,
    .relu_grad = PairLoop<ReluGrad>,
    .add = PairLoop<Add>,
    .mul = PairLoop<Mul>,
    .add_one = AddOne,
    .scale = Scale,
    .fill_rows = FillRows,
    .sum_rows = SumRows,
    .sum = Sum,
    .max = Max,
    .exp_shifted = ExpShifted,
    .transpose = Transpose,
    .max_pool2 = MaxPool2,
    .max_pool2_grad = MaxPool2Grad,
};

}  // namespace tandem::ops
