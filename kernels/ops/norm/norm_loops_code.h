// The code of the loops for batch normalisation. Each norm_loops_<isa>.cc includes this file once.
// As in loops_code.h, everything has internal linkage, and the code calls no inline function with
// external linkage.
#ifndef TANDEM_NORM_LOOPS
#error "include this from norm_loops_<isa>.cc alone"
#endif
#include "kernels/ops/norm/norm_loops.h"

namespace tandem::ops {
namespace {

constexpr int64_t kLanes = NormLoops::kLanes;
// The number of sums in registers. This number is large enough to hide the latency of additions.
constexpr int64_t kWide = 4 * kLanes;

// Computes sum[lane] = sum of term(index, lane). The order of the additions depends only on n.
template <typename Term>
inline void Accumulate(int64_t n, float* sum, const Term& term) {
  float acc[kWide] = {};
  int64_t i = 0;
  for (; i + kWide <= n; i += kWide) {
    for (int64_t c = 0; c < kWide; ++c) acc[c] += term(i + c, c % kLanes);
  }
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t c = 0; c < kLanes; ++c) acc[c] += term(i + c, c);
  }
  for (int64_t c = 0; i < n; ++i, ++c) acc[c] += term(i, c);
  for (int64_t c = 0; c < kLanes; ++c) {
    sum[c] = (acc[c] + acc[c + kLanes]) + (acc[c + 2 * kLanes] + acc[c + 3 * kLanes]);
  }
}

// Tells the compiler that there is no dependency between elements, as in vector_code.h.
#if defined(__clang__)
#define TANDEM_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TANDEM_VECTOR_LOOP _Pragma("GCC ivdep")
#endif

// Calls body(index, lane) for every element of a run.
template <typename Body>
inline void ForEach(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    TANDEM_VECTOR_LOOP
    for (int64_t c = 0; c < kLanes; ++c) body(i + c, c);
  }
  for (int64_t c = 0; i < n; ++i, ++c) body(i, c);
}

void Sums(const float* x, int64_t n, float* sum) {
  Accumulate(n, sum, [x](int64_t i, int64_t) { return x[i]; });
}

// A vector with one value per lane, at any address. The compiler does not vectorise the loops with
// several sums, so these loops use this vector type.
typedef float Vector __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
#define TANDEM_LOAD(p) (*reinterpret_cast<const Vector*>(p))

void Squares(const float* x, const float* center, int64_t n, float* sum) {
  const Vector at = TANDEM_LOAD(center);
  Vector acc[2] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Vector a = TANDEM_LOAD(x + i) - at, b = TANDEM_LOAD(x + i + kLanes) - at;
    acc[0] += a * a;
    acc[1] += b * b;
  }
  for (int64_t k = 0; i < n; ++i, ++k) {
    const float d = x[i] - at[k % kLanes];
    acc[k / kLanes][k % kLanes] += d * d;
  }
  acc[0] += acc[1];
  for (int64_t c = 0; c < kLanes; ++c) sum[c] = acc[0][c];
}

template <bool kAdd, bool kRelu>
void ApplyAs(const NormLoops::Apply& a, int64_t n) {
  const float *x = a.x, *z = a.z;
  float* y = a.y;
  float mean[kLanes], scale[kLanes], bias[kLanes];
  for (int64_t c = 0; c < kLanes; ++c) {
    mean[c] = a.mean[c];
    scale[c] = a.scale[c];
    bias[c] = a.bias[c];
  }
  ForEach(n, [&](int64_t i, int64_t c) {
    float v = (x[i] - mean[c]) * scale[c] + bias[c];
    if (kAdd) v += z[i];
    y[i] = kRelu && 0.0f > v ? 0.0f : v;
  });
}

void Apply(const NormLoops::Apply& a, int64_t n) {
  if (a.z != nullptr) {
    a.relu ? ApplyAs<true, true>(a, n) : ApplyAs<true, false>(a, n);
  } else {
    a.relu ? ApplyAs<false, true>(a, n) : ApplyAs<false, false>(a, n);
  }
}

template <bool kRelu>
inline float Masked(const float* y, const float* g, int64_t i) {
  const float v = g[i];
  return !kRelu || y[i] > 0.0f ? v : 0.0f;
}

template <bool kRelu>
void GradSumsAs(const NormLoops::Grad& a, int64_t n, float* sum_g, float* sum_gx) {
  const float *x = a.x, *y = a.y, *g = a.g;
  const Vector mean = TANDEM_LOAD(a.mean), zero = {};
  Vector acc_g = {}, acc_gx = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Vector v = TANDEM_LOAD(g + i);
    if (kRelu) v = TANDEM_LOAD(y + i) > zero ? v : zero;
    acc_g += v;
    acc_gx += v * (TANDEM_LOAD(x + i) - mean);
  }
  for (int64_t c = 0; i < n; ++i, ++c) {
    const float v = Masked<kRelu>(y, g, i);
    acc_g[c] += v;
    acc_gx[c] += v * (x[i] - mean[c]);
  }
  for (int64_t c = 0; c < kLanes; ++c) {
    sum_g[c] = acc_g[c];
    sum_gx[c] = acc_gx[c];
  }
}

void GradSums(const NormLoops::Grad& a, int64_t n, float* sum_g, float* sum_gx) {
  a.y != nullptr ? GradSumsAs<true>(a, n, sum_g, sum_gx) : GradSumsAs<false>(a, n, sum_g, sum_gx);
}

template <bool kRelu, bool kX, bool kZ>
void GradAs(const NormLoops::Grad& a, int64_t n) {
  const float *x = a.x, *y = a.y, *g = a.g;
  float *gx = a.gx, *gz = a.gz;
  float mean[kLanes], scale[kLanes], mean_g[kLanes], slope[kLanes];
  for (int64_t c = 0; c < kLanes; ++c) {
    mean[c] = a.mean[c];
    scale[c] = a.scale[c];
    mean_g[c] = a.mean_g[c];
    slope[c] = a.slope[c];
  }
  ForEach(n, [&](int64_t i, int64_t c) {
    const float v = Masked<kRelu>(y, g, i);
    if (kX) gx[i] = scale[c] * (v - mean_g[c] - (x[i] - mean[c]) * slope[c]);
    if (kZ) gz[i] = v;
  });
}

template <bool kRelu>
void GradFor(const NormLoops::Grad& a, int64_t n) {
  if (a.gx != nullptr && a.gz != nullptr) {
    GradAs<kRelu, true, true>(a, n);
  } else if (a.gx != nullptr) {
    GradAs<kRelu, true, false>(a, n);
  } else if (a.gz != nullptr) {
    GradAs<kRelu, false, true>(a, n);
  }
}

void Grad(const NormLoops::Grad& a, int64_t n) {
  a.y != nullptr ? GradFor<true>(a, n) : GradFor<false>(a, n);
}

// ---- Rows of channels ---------------------------------------------------------------------------

// Adds term(index, channel) of all rows, in order, to sum[channel]. The sums of 16 channels are in
// registers at the same time. add(index, channel, &register) adds the terms of these 16 channels.
template <typename Add, typename Term>
inline void AddRows(int64_t rows, int64_t channels, float* sum, const Add& add, const Term& term) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) {
    Vector acc = TANDEM_LOAD(sum + c);
    for (int64_t r = 0; r < rows; ++r) add(r * channels + c, c, &acc);
    *reinterpret_cast<Vector*>(sum + c) = acc;
  }
  for (; c < channels; ++c) {
    for (int64_t r = 0; r < rows; ++r) sum[c] += term(r * channels + c, c);
  }
}

void RowSums(const float* x, int64_t rows, int64_t channels, float* sum) {
  AddRows(
      rows, channels, sum, [x](int64_t i, int64_t, Vector* acc) { *acc += TANDEM_LOAD(x + i); },
      [x](int64_t i, int64_t) { return x[i]; });
}

void RowDeviations(const float* x, const float* center, int64_t rows, int64_t channels, float* sum,
                   float* squares) {
  AddRows(
      rows, channels, sum,
      [=](int64_t i, int64_t c, Vector* acc) {
        *acc += TANDEM_LOAD(x + i) - TANDEM_LOAD(center + c);
      },
      [=](int64_t i, int64_t c) { return x[i] - center[c]; });
  AddRows(
      rows, channels, squares,
      [=](int64_t i, int64_t c, Vector* acc) {
        const Vector d = TANDEM_LOAD(x + i) - TANDEM_LOAD(center + c);
        *acc += d * d;
      },
      [=](int64_t i, int64_t c) { return (x[i] - center[c]) * (x[i] - center[c]); });
}

// Calls body(index, channel) for every element of all rows.
template <typename Body>
inline void ForRows(int64_t rows, int64_t channels, const Body& body) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * channels;
    TANDEM_VECTOR_LOOP
    for (int64_t c = 0; c < channels; ++c) body(at + c, c);
  }
}

template <bool kAdd, bool kRelu>
void RowApplyAs(const NormLoops::Apply& a, int64_t rows, int64_t channels) {
  const float *x = a.x, *z = a.z, *mean = a.mean, *scale = a.scale, *bias = a.bias;
  float* y = a.y;
  ForRows(rows, channels, [=](int64_t i, int64_t c) {
    float v = (x[i] - mean[c]) * scale[c] + bias[c];
    if (kAdd) v += z[i];
    y[i] = kRelu && 0.0f > v ? 0.0f : v;
  });
}

void RowApply(const NormLoops::Apply& a, int64_t rows, int64_t channels) {
  if (a.z != nullptr) {
    a.relu ? RowApplyAs<true, true>(a, rows, channels) : RowApplyAs<true, false>(a, rows, channels);
  } else {
    a.relu ? RowApplyAs<false, true>(a, rows, channels)
           : RowApplyAs<false, false>(a, rows, channels);
  }
}

template <bool kRelu>
void RowGradSumsAs(const NormLoops::Grad& a, int64_t rows, int64_t channels, float* sum_g,
                   float* sum_gx) {
  const float *x = a.x, *y = a.y, *g = a.g, *mean = a.mean;
  AddRows(
      rows, channels, sum_g,
      [=](int64_t i, int64_t, Vector* acc) {
        const Vector v = TANDEM_LOAD(g + i), zero = {};
        *acc += kRelu ? (TANDEM_LOAD(y + i) > zero ? v : zero) : v;
      },
      [=](int64_t i, int64_t) { return Masked<kRelu>(y, g, i); });
  AddRows(
      rows, channels, sum_gx,
      [=](int64_t i, int64_t c, Vector* acc) {
        const Vector v = TANDEM_LOAD(g + i), zero = {};
        const Vector d = TANDEM_LOAD(x + i) - TANDEM_LOAD(mean + c);
        *acc += (kRelu ? (TANDEM_LOAD(y + i) > zero ? v : zero) : v) * d;
      },
      [=](int64_t i, int64_t c) { return Masked<kRelu>(y, g, i) * (x[i] - mean[c]); });
}

void RowGradSums(const NormLoops::Grad& a, int64_t rows, int64_t channels, float* sum_g,
                 float* sum_gx) {
  a.y != nullptr ? RowGradSumsAs<true>(a, rows, channels, sum_g, sum_gx)
                 : RowGradSumsAs<false>(a, rows, channels, sum_g, sum_gx);
}

template <bool kRelu, bool kX, bool kZ>
void RowGradAs(const NormLoops::Grad& a, int64_t rows, int64_t channels) {
  const float *x = a.x, *y = a.y, *g = a.g, *mean = a.mean, *scale = a.scale;
  const float *mean_g = a.mean_g, *slope = a.slope;
  float *gx = a.gx, *gz = a.gz;
  ForRows(rows, channels, [=](int64_t i, int64_t c) {
    const float v = Masked<kRelu>(y, g, i);
    if (kX) gx[i] = scale[c] * (v - mean_g[c] - (x[i] - mean[c]) * slope[c]);
    if (kZ) gz[i] = v;
  });
}

template <bool kRelu>
void RowGradFor(const NormLoops::Grad& a, int64_t rows, int64_t channels) {
  if (a.gx != nullptr && a.gz != nullptr) {
    RowGradAs<kRelu, true, true>(a, rows, channels);
  } else if (a.gx != nullptr) {
    RowGradAs<kRelu, true, false>(a, rows, channels);
  } else if (a.gz != nullptr) {
    RowGradAs<kRelu, false, true>(a, rows, channels);
  }
}

void RowGrad(const NormLoops::Grad& a, int64_t rows, int64_t channels) {
  a.y != nullptr ? RowGradFor<true>(a, rows, channels) : RowGradFor<false>(a, rows, channels);
}

}  // namespace

const NormLoops TANDEM_NORM_LOOPS = {Sums,    Squares,       Apply,    GradSums,    Grad,
                                     RowSums, RowDeviations, RowApply, RowGradSums, RowGrad};

}  // namespace tandem::ops
