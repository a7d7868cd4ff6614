// The code of the convolution loops. Each conv_loops_<isa>.cc includes this file once. As in
// loops_code.h, everything has internal linkage, and the code calls no inline function with
// external linkage.
#ifndef TANDEM_CONV_LOOPS
#error "include this from conv_loops_<isa>.cc alone"
#endif
#include "kernels/ops/conv/conv_loops.h"

namespace tandem::ops {
namespace {

constexpr int kWidth = TANDEM_LANES;
typedef float Vec __attribute__((vector_size(kWidth * sizeof(float))));
static_assert(ConvLoops::kLanesMax % kWidth == 0);

// Sizes of the accumulator blocks, which fill 24 of 32 registers with AVX-512, and 12 of 16
// registers otherwise.
constexpr bool kManyRegisters = kWidth == 16;
constexpr int kChannelsMax = kManyRegisters ? 8 : 4;
constexpr int VectorsFor(int channels) { return !kManyRegisters ? 3 : channels <= 6 ? 4 : 3; }

inline Vec Load(const float* from) {
  Vec v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}
#if TANDEM_LANES == 16
inline Vec Broadcast(float f) { return Vec{f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f}; }
#elif TANDEM_LANES == 8
inline Vec Broadcast(float f) { return Vec{f, f, f, f, f, f, f, f}; }
#else
inline Vec Broadcast(float f) { return Vec{f, f, f, f}; }
#endif
// Keeps a value in a register while several multiply-adds use the value. Without Keep, the compiler
// would load the value for each multiply-add. Loads are the bottleneck of these loops.
inline void Keep(Vec& v) { asm("" : "+v"(v)); }
inline void Store(float* to, Vec v) { __builtin_memcpy(to, &v, sizeof(v)); }

// Computes `V` vectors of positions, starting at position `p`, of `O` output channels, starting at
// channel `o`.
template <int O, int V>
void ForwardTile(const ConvLoops::Forward& a, int64_t o, int64_t p) {
  Vec acc[O][V];
#pragma GCC unroll 8
  for (int i = 0; i < O; ++i) {
    const float bias = a.bias == nullptr ? 0.0f : a.bias[o + i];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[i][v] = Broadcast(bias);
  }
  const float* w = a.w + o;
  for (int64_t t = 0; t < a.taps; ++t, w += a.channels) {
    const float* in = a.in + a.offset[t] + p;
    Vec x[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) x[v] = Load(in + v * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < O; ++i) {
      Vec weight = Broadcast(w[i]);
      Keep(weight);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[i][v] += x[v] * weight;
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < O; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) Store(a.out + (o + i) * a.out_ld + p + v * kWidth, acc[i][v]);
  }
}

template <int O>
void ForwardChannels(const ConvLoops::Forward& a, int64_t o) {
  constexpr int kVectors = VectorsFor(O);
  int64_t p = 0;
  for (; p + kVectors * kWidth <= a.length; p += kVectors * kWidth) {
    ForwardTile<O, kVectors>(a, o, p);
  }
  switch ((a.length - p) / kWidth) {
    case 3:
      ForwardTile<O, 3>(a, o, p);
      break;
    case 2:
      ForwardTile<O, 2>(a, o, p);
      break;
    case 1:
      ForwardTile<O, 1>(a, o, p);
      break;
  }
}

// Computes one vector of channels, starting at channel `o`, for `P` positions of row `y`, starting
// at column `x`.
template <int P>
void TransposedTile(const ConvLoops::Transposed& a, int64_t o, int64_t y, int64_t x) {
  Vec acc[P];
  const Vec bias = a.bias == nullptr ? Vec{} : Load(a.bias + o);
#pragma GCC unroll 16
  for (int i = 0; i < P; ++i) acc[i] = bias;
  const float* w = a.w + o;
  for (int64_t t = 0; t < a.taps; ++t, w += a.channels) {
    const float* in = a.in + a.offset[t] + y * a.width + x;
    Vec weight = Load(w);
    Keep(weight);
#pragma GCC unroll 16
    for (int i = 0; i < P; ++i) acc[i] += weight * Broadcast(in[i]);
  }
  float* out = a.out + (y * a.cols + x) * a.channels + o;
#pragma GCC unroll 16
  for (int i = 0; i < P; ++i) Store(out + i * a.channels, acc[i]);
}

constexpr int kPositionsMax = kManyRegisters ? 16 : 12;

// Computes all rows in tiles of `P` positions, then in smaller tiles. The last positions of a row
// are computed one by one.
template <int P>
void TransposedRows(const ConvLoops::Transposed& a) {
  for (int64_t o = 0; o < a.channels; o += kWidth) {
    for (int64_t y = 0; y < a.rows; ++y) {
      int64_t x = 0;
      for (; x + P <= a.cols; x += P) TransposedTile<P>(a, o, y, x);
      for (; x + 4 <= a.cols; x += 4) TransposedTile<4>(a, o, y, x);
      for (; x < a.cols; ++x) TransposedTile<1>(a, o, y, x);
    }
  }
}

void Transposed(const ConvLoops::Transposed& a) {
  const int64_t tiles = (a.cols + kPositionsMax - 1) / kPositionsMax;
  const int64_t tile = tiles == 0 ? 0 : a.cols / tiles;
  if (kManyRegisters && tile >= 16) return TransposedRows < kManyRegisters ? 16 : 12 > (a);
  if (kManyRegisters && tile >= 14) return TransposedRows < kManyRegisters ? 14 : 12 > (a);
  if (tile >= 12) return TransposedRows<12>(a);
  if (tile >= 10) return TransposedRows<10>(a);
  return TransposedRows<8>(a);
}

// Computes the sums of `O` output channels, starting at channel `o`, for `T` taps, starting at tap
// `t`.
template <int O, int T>
void WeightsTile(const ConvLoops::Weights& a, int64_t o, int64_t t) {
  Vec acc[O][T];
  float* const stored = a.acc + (o * a.taps + t) * ConvLoops::kLanesMax;
#pragma GCC unroll 8
  for (int i = 0; i < O; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < T; ++j) {
      acc[i][j] = Load(stored + (i * a.taps + j) * ConvLoops::kLanesMax);
    }
  }
  for (int64_t image = 0; image < a.images; ++image) {
    const float* g = a.g + image * a.g_stride + o * a.g_ld;
    const float* in = a.in + image * a.in_stride;
    for (int64_t p = 0; p < a.length; p += kWidth) {
      Vec x[T];
#pragma GCC unroll 4
      for (int j = 0; j < T; ++j) x[j] = Load(in + a.offset[t + j] + p);
#pragma GCC unroll 8
      for (int i = 0; i < O; ++i) {
        Vec gradient = Load(g + i * a.g_ld + p);
        Keep(gradient);
#pragma GCC unroll 4
        for (int j = 0; j < T; ++j) acc[i][j] += gradient * x[j];
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < O; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < T; ++j) {
      Store(stored + (i * a.taps + j) * ConvLoops::kLanesMax, acc[i][j]);
    }
  }
}

template <int O>
void WeightsChannels(const ConvLoops::Weights& a, int64_t o) {
  constexpr int kTaps = VectorsFor(O);
  int64_t t = 0;
  for (; t + kTaps <= a.taps; t += kTaps) WeightsTile<O, kTaps>(a, o, t);
  switch (a.taps - t) {
    case 3:
      WeightsTile<O, 3>(a, o, t);
      break;
    case 2:
      WeightsTile<O, 2>(a, o, t);
      break;
    case 1:
      WeightsTile<O, 1>(a, o, t);
      break;
  }
}

// Computes the sums of one vector of channels, starting at channel `o`, for `T` taps, starting at
// tap `t`. T is large enough to hide the latency of a multiply-add. The number of registers limits
// T, because each tap needs a pointer to its inputs.
template <int T>
void WeightsTransposedTile(const ConvLoops::WeightsTransposed& a, int64_t o, int64_t t) {
  float* const stored = a.acc + (o / kWidth * a.taps + t) * ConvLoops::kLanesMax;
  Vec acc[T];
#pragma GCC unroll 8
  for (int j = 0; j < T; ++j) acc[j] = Load(stored + j * ConvLoops::kLanesMax);
  for (int64_t image = 0; image < a.images; ++image) {
    const float* g = a.g + image * a.g_stride + o;
    for (int64_t y = 0; y < a.rows; ++y) {
      const float* in[T];
#pragma GCC unroll 8
      for (int j = 0; j < T; ++j) {
        in[j] = a.in + image * a.in_stride + a.offset[t + j] + y * a.width;
      }
      for (int64_t x = 0; x < a.cols; ++x, g += a.channels) {
        Vec gradient = Load(g);
        Keep(gradient);
#pragma GCC unroll 8
        for (int j = 0; j < T; ++j) acc[j] += gradient * Broadcast(in[j][x]);
      }
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < T; ++j) Store(stored + j * ConvLoops::kLanesMax, acc[j]);
}

void WeightsTransposed(const ConvLoops::WeightsTransposed& a) {
  for (int64_t o = 0; o < a.channels; o += kWidth) {
    int64_t t = 0;
    for (; t + 8 <= a.taps; t += 8) WeightsTransposedTile<8>(a, o, t);
    if (t + 4 <= a.taps) {
      WeightsTransposedTile<4>(a, o, t);
      t += 4;
    }
    for (; t < a.taps; ++t) WeightsTransposedTile<1>(a, o, t);
  }
}

// Computes `V` vectors of positions, starting at position `p`, of `C` input channels, starting at
// channel `c`.
template <int C, int V>
void InputsTile(const ConvLoops::Inputs& a, int64_t c, int64_t p) {
  for (int64_t t = 0; t < a.positions; ++t) {
    Vec acc[C][V] = {};
    const float* g = a.g + p;
    const float* w = a.w + t * a.out_channels * a.channels + c;
    for (int64_t o = 0; o < a.out_channels; ++o, g += a.length, w += a.channels) {
      Vec x[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) x[v] = Load(g + v * kWidth);
#pragma GCC unroll 8
      for (int i = 0; i < C; ++i) {
        Vec weight = Broadcast(w[i]);
        Keep(weight);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) acc[i][v] += x[v] * weight;
      }
    }
    float* to = a.gin + c * a.plane + a.offset[t] + p;
#pragma GCC unroll 8
    for (int i = 0; i < C; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        float* at = to + i * a.plane + v * kWidth;
        Store(at, Load(at) + acc[i][v]);
      }
    }
  }
}

template <int C>
void InputsChannels(const ConvLoops::Inputs& a, int64_t c) {
  constexpr int kVectors = VectorsFor(C);
  int64_t p = 0;
  for (; p + kVectors * kWidth <= a.length; p += kVectors * kWidth) {
    InputsTile<C, kVectors>(a, c, p);
  }
  switch ((a.length - p) / kWidth) {
    case 3:
      InputsTile<C, 3>(a, c, p);
      break;
    case 2:
      InputsTile<C, 2>(a, c, p);
      break;
    case 1:
      InputsTile<C, 1>(a, c, p);
      break;
  }
}

// Calls fn[count - 1](args, o) for one block of `count` channels after another. All blocks have
// kChannelsMax channels, except the last one.
template <typename Args>
void ForChannels(const Args& args, void (*const (&fn)[8])(const Args&, int64_t)) {
  int64_t o = 0;
  for (; o + kChannelsMax <= args.channels; o += kChannelsMax) fn[kChannelsMax - 1](args, o);
  if (o < args.channels) fn[args.channels - o - 1](args, o);
}

void Forward(const ConvLoops::Forward& args) {
  ForChannels<ConvLoops::Forward>(
      args,
      {ForwardChannels<1>, ForwardChannels<2>, ForwardChannels<3>, ForwardChannels<4>,
       ForwardChannels < kManyRegisters ? 5 : 1 >, ForwardChannels < kManyRegisters ? 6 : 1 >,
       ForwardChannels < kManyRegisters ? 7 : 1 >, ForwardChannels < kManyRegisters ? 8 : 1 > });
}

void Weights(const ConvLoops::Weights& args) {
  ForChannels<ConvLoops::Weights>(
      args,
      {WeightsChannels<1>, WeightsChannels<2>, WeightsChannels<3>, WeightsChannels<4>,
       WeightsChannels < kManyRegisters ? 5 : 1 >, WeightsChannels < kManyRegisters ? 6 : 1 >,
       WeightsChannels < kManyRegisters ? 7 : 1 >, WeightsChannels < kManyRegisters ? 8 : 1 > });
}

void Inputs(const ConvLoops::Inputs& args) {
  ForChannels<ConvLoops::Inputs>(
      args,
      {InputsChannels<1>, InputsChannels<2>, InputsChannels<3>, InputsChannels<4>,
       InputsChannels < kManyRegisters ? 5 : 1 >, InputsChannels < kManyRegisters ? 6 : 1 >,
       InputsChannels < kManyRegisters ? 7 : 1 >, InputsChannels < kManyRegisters ? 8 : 1 > });
}

// Copies one row of n elements. Reads and writes no element after the row. For such a short row, a
// call of memcpy would take longer.
inline void CopyRow(const float* from, float* to, int64_t n) {
  constexpr int64_t kWide = 16, kHalf = 8, kQuarter = 4;
  if (n >= kWide) {
    int64_t i = 0;
    for (; i + kWide <= n; i += kWide) __builtin_memcpy(to + i, from + i, kWide * sizeof(float));
    __builtin_memcpy(to + n - kWide, from + n - kWide, kWide * sizeof(float));
  } else if (n >= kHalf) {
    __builtin_memcpy(to, from, kHalf * sizeof(float));
    __builtin_memcpy(to + n - kHalf, from + n - kHalf, kHalf * sizeof(float));
  } else if (n >= kQuarter) {
    __builtin_memcpy(to, from, kQuarter * sizeof(float));
    __builtin_memcpy(to + n - kQuarter, from + n - kQuarter, kQuarter * sizeof(float));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

void CopyRows(const float* from, int64_t from_ld, float* to, int64_t to_ld, int64_t rows,
              int64_t n) {
  for (int64_t r = 0; r < rows; ++r, from += from_ld, to += to_ld) CopyRow(from, to, n);
}

}  // namespace

const ConvLoops TANDEM_CONV_LOOPS = {
    .forward = Forward,
    .transposed = Transposed,
    .lanes = kWidth,
    .weights = Weights,
    .weights_transposed = WeightsTransposed,
    .inputs = Inputs,
    .copy_rows = CopyRows,
};

}  // namespace tandem::ops
