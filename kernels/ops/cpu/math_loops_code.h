// The code of the loops of math_loops.h. Each math_loops_<isa>.cc includes this file once. As in
// loops_code.h, everything has internal linkage, and the code calls no inline function with
// external linkage.
#ifndef TANDEM_MATH_LOOPS
#error "include this from math_loops_<isa>.cc alone"
#endif
#include "kernels/ops/cpu/math_loops.h"
#include "kernels/ops/cpu/vector_code.h"
#include "kernels/ops/formulas/activation.h"

namespace tandem::ops {
namespace {

// ---- Rows: element i is summed in lane i % 16, then the 16 lanes are added in order -------------

constexpr int64_t kLanes = 16;

inline float Total(const float* lane) {
  float total = 0.0f;
  for (int64_t l = 0; l < kLanes; ++l) total += lane[l];
  return total;
}

float RowMax(const float* x, int64_t n) {
  float lane[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) lane[l] = x[l < n ? l : 0];
  for (int64_t i = kLanes; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
  }
  for (int64_t i = n / kLanes * kLanes; i < n; ++i) lane[0] = x[i] > lane[0] ? x[i] : lane[0];
  float best = lane[0];
  for (int64_t l = 1; l < kLanes; ++l) best = lane[l] > best ? lane[l] : best;
  return best;
}

void SoftmaxRow(const float* x, float* y, int64_t n) {
  const float max = RowMax(x, n);
  float lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const float e = Exp(x[i + l] - max);
      y[i + l] = e;
      lane[l] += e;
    }
  }
  if (i < n) {  // the last elements, padded to a full vector with -200, whose exp is 0
    float rest[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) rest[l] = i + l < n ? x[i + l] - max : -200.0f;
    for (int64_t l = 0; l < kLanes; ++l) {
      rest[l] = Exp(rest[l]);
      lane[l] += rest[l];
    }
    for (int64_t l = 0; i + l < n; ++l) y[i + l] = rest[l];
  }
  const float scale = 1.0f / Total(lane);
  TANDEM_VECTOR_LOOP
  for (int64_t j = 0; j < n; ++j) y[j] *= scale;
}

void SoftmaxRowGrad(const float* y, const float* gy, float* gx, int64_t n) {
  float lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lane[l] += y[i + l] * gy[i + l];
  }
  for (int64_t l = 0; i < n; ++i, ++l) lane[l] += y[i] * gy[i];
  const float dot = Total(lane);
  TANDEM_VECTOR_LOOP
  for (int64_t j = 0; j < n; ++j) gx[j] = y[j] * (gy[j] - dot);
}

// Returns the number of elements that row r of a block keeps.
inline int64_t KeptOf(const MathLoops::ScoreBlock& block, int64_t r) {
  const int64_t kept = block.kept + r * block.step;
  return kept < 0 ? 0 : kept < block.n ? kept : block.n;
}

// Returns the largest of n >= 1 scores alpha * x.
float LargestScore(const float* x, float alpha, int64_t n) {
  float lane[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) lane[l] = alpha * x[l < n ? l : 0];
  for (int64_t i = kLanes; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const float score = alpha * x[i + l];
      lane[l] = score > lane[l] ? score : lane[l];
    }
  }
  for (int64_t i = n / kLanes * kLanes; i < n; ++i) {
    lane[0] = alpha * x[i] > lane[0] ? alpha * x[i] : lane[0];
  }
  float best = lane[0];
  for (int64_t l = 1; l < kLanes; ++l) best = lane[l] > best ? lane[l] : best;
  return best;
}

// Replaces n scores by exp(alpha * x - shift), and returns their sum.
float ExpScores(float* x, float alpha, float shift, int64_t n) {
  float lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const float e = Exp(alpha * x[i + l] - shift);
      x[i + l] = e;
      lane[l] += e;
    }
  }
  if (i < n) {  // as in SoftmaxRow
    float rest[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) rest[l] = i + l < n ? alpha * x[i + l] - shift : -200.0f;
    for (int64_t l = 0; l < kLanes; ++l) {
      rest[l] = Exp(rest[l]);
      lane[l] += rest[l];
    }
    for (int64_t l = 0; i + l < n; ++l) x[i + l] = rest[l];
  }
  return Total(lane);
}

void SoftmaxBlock(const MathLoops::ScoreBlock& block, bool first, float* x, float* max, float* sum,
                  float* out, int64_t out_n) {
  for (int64_t r = 0; r < block.rows; ++r, x += block.n, out += out_n) {
    const int64_t kept = KeptOf(block, r);
    for (int64_t j = kept; j < block.n; ++j) x[j] = 0.0f;
    if (kept == 0) continue;
    const float largest = LargestScore(x, block.alpha, kept);
    if (first) {
      max[r] = largest;
      sum[r] = 0.0f;
    } else if (largest > max[r]) {
      const float factor = Exp(max[r] - largest);
      max[r] = largest;
      sum[r] *= factor;
      TANDEM_VECTOR_LOOP
      for (int64_t j = 0; j < out_n; ++j) out[j] *= factor;
    }
    sum[r] += ExpScores(x, block.alpha, max[r], kept);
  }
}

void SoftmaxBlockGrad(const MathLoops::ScoreBlock& block, const float* log_sum, const float* dot,
                      float* x, float* gy) {
  for (int64_t r = 0; r < block.rows; ++r, x += block.n, gy += block.n) {
    const int64_t kept = KeptOf(block, r);
    const float shift = log_sum[r], mean = dot[r], alpha = block.alpha;
    // Masked elements are computed too, so that the loop has whole vectors, and then cleared.
    TANDEM_VECTOR_LOOP
    for (int64_t j = 0; j < block.n; ++j) {
      const float y = Exp(alpha * x[j] - shift);
      x[j] = y;
      gy[j] = alpha * (y * (gy[j] - mean));
    }
    for (int64_t j = kept; j < block.n; ++j) x[j] = gy[j] = 0.0f;
  }
}

void RowDots(const float* x, const float* y, float* out, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    float lane[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) lane[l] += x[i + l] * y[i + l];
    }
    for (int64_t l = 0; i < n; ++i, ++l) lane[l] += x[i] * y[i];
    out[r] = Total(lane);
  }
}

void Moments(const float* x, int64_t n, float* mean, float* variance) {
  float lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lane[l] += x[i + l];
  }
  for (int64_t l = 0; i < n; ++i, ++l) lane[l] += x[i];
  const float m = Total(lane) / static_cast<float>(n);
  float square[kLanes] = {};
  for (i = 0; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) square[l] += (x[i + l] - m) * (x[i + l] - m);
  }
  for (int64_t l = 0; i < n; ++i, ++l) square[l] += (x[i] - m) * (x[i] - m);
  *mean = m;
  *variance = Total(square) / static_cast<float>(n);
}

void NormalizeRow(const float* x, float mean, float r, const float* scale, const float* bias,
                  float* y, int64_t n) {
  if (scale != nullptr && bias != nullptr) {
    TANDEM_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * r * scale[i] + bias[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const float v = (x[i] - mean) * r * (scale == nullptr ? 1.0f : scale[i]);
    y[i] = v + (bias == nullptr ? 0.0f : bias[i]);
  }
}

// Computes gx. Let h = (x - mean) r and q = gy scale. Then gx = r (q - mean of q - h * mean of (q
// h)).
void NormalizeRowInput(const float* x, float mean, float r, const float* scale, const float* gy,
                       float* gx, int64_t n) {
  float sum[kLanes] = {}, dot[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const float q = gy[i + l] * scale[i + l];
      sum[l] += q;
      dot[l] += q * (x[i + l] - mean);
    }
  }
  for (int64_t l = 0; i < n; ++i, ++l) {
    const float q = gy[i] * scale[i];
    sum[l] += q;
    dot[l] += q * (x[i] - mean);
  }
  const float inv = 1.0f / static_cast<float>(n);
  const float a = Total(sum) * inv, b = Total(dot) * inv * r * r;
  TANDEM_VECTOR_LOOP
  for (int64_t j = 0; j < n; ++j) gx[j] = r * (gy[j] * scale[j] - a - (x[j] - mean) * b);
}

void NormalizeRowGrad(const float* x, float mean, float r, const float* scale, const float* gy,
                      float* gx, float* gscale, float* gbias, int64_t n) {
  if (gscale != nullptr) {
    TANDEM_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) gscale[i] += gy[i] * ((x[i] - mean) * r);
  }
  if (gbias != nullptr) {
    TANDEM_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) gbias[i] += gy[i];
  }
  if (gx != nullptr) NormalizeRowInput(x, mean, r, scale, gy, gx, n);
}

// Computes Philox-4x32-10 (common/base/rng.cc) of `n` counters. c[w] gets word w of each result.
template <int64_t n>
inline void PhiloxWords(uint64_t key, const uint64_t (&at)[n], uint32_t (&c)[4][n]) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int64_t l = 0; l < n; ++l) {
    c[0][l] = static_cast<uint32_t>(at[l]);
    c[1][l] = static_cast<uint32_t>(at[l] >> 32);
    c[2][l] = c[3][l] = 0;
  }
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    TANDEM_VECTOR_LOOP
    for (int64_t l = 0; l < n; ++l) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0][l];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2][l];
      c[0][l] = static_cast<uint32_t>(p1 >> 32) ^ c[1][l] ^ k0;
      c[1][l] = static_cast<uint32_t>(p1);
      c[2][l] = static_cast<uint32_t>(p0 >> 32) ^ c[3][l] ^ k1;
      c[3][l] = static_cast<uint32_t>(p0);
    }
  }
}

void DropoutRun(const float* x, float* y, int64_t n, uint64_t key, uint64_t first,
                uint32_t drop_below, float scale) {
  constexpr int64_t kCounters = 32;
  uint32_t c[4][kCounters], words[4 * kCounters];
  uint64_t at[kCounters];
  for (int64_t l = 0; l < kCounters; ++l) at[l] = first / 4 + static_cast<uint64_t>(l);
  for (int64_t i = -static_cast<int64_t>(first % 4); i < n; i += 4 * kCounters) {
    PhiloxWords(key, at, c);
    for (int64_t l = 0; l < kCounters; ++l) {
      for (int64_t w = 0; w < 4; ++w) words[4 * l + w] = c[w][l];
      at[l] += kCounters;
    }
    const int64_t begin = i < 0 ? 0 : i, end = i + 4 * kCounters < n ? i + 4 * kCounters : n;
    TANDEM_VECTOR_LOOP
    for (int64_t j = begin; j < end; ++j) {
      const float v = x[j] * scale;
      y[j] = words[j - i] < drop_below ? 0.0f : v;
    }
  }
}

// Returns log((word + 1) / 2^32), with an error of about 1e-12. The argument is written as 2^k m
// with m in [sqrt(1/2), sqrt(2)). log m is the series of 2 atanh((m - 1) / (m + 1)).
inline double LogOf(uint32_t word) {
  // kRoot has the bits of sqrt(1/2). u is above 2^-kBelow.
  constexpr uint64_t kRoot = 0x3fe6a09e667f3bcd, kBelow = 40;
  const double u = (word + 1.0) * 0x1p-32;
  uint64_t bits;
  __builtin_memcpy(&bits, &u, sizeof(bits));
  const uint64_t k = (bits - (kRoot - (kBelow << 52))) >> 52;
  bits -= (k - kBelow) << 52;
  double m;
  __builtin_memcpy(&m, &bits, sizeof(m));
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  return (static_cast<double>(static_cast<int32_t>(k)) - 40.0) * 0.69314718055994531 + 2.0 * s * p;
}

// Returns cos(2 pi word / 2^32), with an error of about 1e-11. Splits the circle into quarters and
// uses Taylor's series within [-pi/4, pi/4].
inline double CosOf(uint32_t word) {
  const uint32_t quarter = (word + (1u << 29)) >> 30;
  const double a = static_cast<double>(static_cast<int32_t>(word - (quarter << 30))) *
                   (6.2831853071795865 * 0x1p-32);
  const double z = a * a;
  double c = 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = c * z - 1.0 / 2;
  c = c * z + 1.0;
  double s = -1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = s * z + 1.0;
  const double part = (quarter & 1) != 0 ? -s * a : c;
  return (quarter & 2) != 0 ? -part : part;
}

// Computes normally distributed numbers from random words, with the Box-Muller transform.
void NormalsOf(const uint32_t* radius, const uint32_t* turn, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>(__builtin_sqrt(-2.0 * LogOf(radius[i])) * CosOf(turn[i]));
  }
}

// Fills the rows with normally distributed numbers. Each counter gives two elements. Counters of
// several rows are processed together.
void NormalRows(uint64_t key, const uint64_t* first, int64_t rows, float* out, int64_t n) {
  constexpr int64_t kCounters = 16;
  // A part of a row: `count` elements of `pairs`, starting at element `begin`, are copied to `to`.
  struct Piece {
    float* to;
    int64_t begin, count;
  };
  int64_t next = 0;  // the next counter of the current row
  for (int64_t row = 0; row < rows && n > 0;) {
    uint64_t at[kCounters] = {};
    Piece pieces[kCounters];
    int64_t filled = 0, count = 0;
    while (filled < kCounters && row < rows) {
      const int64_t skip = static_cast<int64_t>(first[row] % 2), counters = (skip + n + 1) / 2;
      const int64_t left = counters - next, room = kCounters - filled;
      const int64_t take = left < room ? left : room;
      for (int64_t k = 0; k < take; ++k) {
        at[filled + k] = first[row] / 2 + static_cast<uint64_t>(next + k);
      }
      const int64_t begin = 2 * next - skip, from = begin < 0 ? 0 : begin;
      const int64_t end = begin + 2 * take < n ? begin + 2 * take : n;
      pieces[count++] = {out + row * n + from, 2 * filled + from - begin, end - from};
      filled += take;
      next += take;
      if (next < counters) break;
      next = 0;
      ++row;
    }
    uint32_t c[4][kCounters];
    float even[kCounters], odd[kCounters], pairs[2 * kCounters];
    PhiloxWords(key, at, c);
    NormalsOf(c[0], c[1], even, kCounters);
    NormalsOf(c[2], c[3], odd, kCounters);
    for (int64_t k = 0; k < kCounters; ++k) {
      pairs[2 * k] = even[k];
      pairs[2 * k + 1] = odd[k];
    }
    for (int64_t p = 0; p < count; ++p) {
      for (int64_t i = 0; i < pieces[p].count; ++i) pieces[p].to[i] = pairs[pieces[p].begin + i];
    }
  }
}

}  // namespace

const MathLoops TANDEM_MATH_LOOPS = {
    .sigmoid = UnaryLoop<Sigmoid>,
    .tanh = UnaryLoop<Tanh>,
    .gelu = UnaryLoop<Gelu>,
    .gelu_tanh = UnaryLoop<GeluTanh>,
    .sigmoid_grad = PairLoop<SigmoidGrad>,
    .tanh_grad = PairLoop<TanhGrad>,
    .gelu_grad = PairLoop<GeluGrad>,
    .gelu_tanh_grad = PairLoop<GeluTanhGrad>,
    .sub = PairLoop<Sub>,
    .div = PairLoop<Div>,
    .max = PairLoop<Max>,
    .div_grad_x = PairGradXLoop<Div>,
    .div_grad_y = PairGradYLoop<Div>,
    .max_grad_x = PairGradXLoop<Max>,
    .max_grad_y = PairGradYLoop<Max>,
    .softmax_row = SoftmaxRow,
    .softmax_row_grad = SoftmaxRowGrad,
    .softmax_block = SoftmaxBlock,
    .softmax_block_grad = SoftmaxBlockGrad,
    .row_dots = RowDots,
    .dropout = DropoutRun,
    .normal = NormalRows,
    .moments = Moments,
    .normalize_row = NormalizeRow,
    .normalize_row_grad = NormalizeRowGrad,
};

}  // namespace tandem::ops
