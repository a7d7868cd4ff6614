// Vector loops for convolutions with stride 1. They are compiled once per instruction set like
// loops.h, but with fused multiply-adds.
//
// All loops work on zero-padded planes, one after another in memory. A plane is treated as one long
// row. An output plane has rows of the padded input's width; the last elements of each row are
// unused. It is a sum over the filter taps of the input shifted by offset[tap]. This is "implicit"
// im2col, without unfolding.
#pragma once

#include <cstdint>

namespace tandem {

struct ConvLoops {
  static constexpr int64_t kLanesMax = 16;

  // out[o * out_ld + p] = bias[o] + sum over taps t of w[t * channels + o] in[offset[t] + p], for p
  // in [0, length). length is a multiple of kLanesMax. bias may be nullptr.
  struct Forward {
    const float *in, *w, *bias;
    const int32_t* offset;
    int64_t taps, channels, length;
    float* out;
    int64_t out_ld;
  };
  void (*forward)(const Forward& args);

  // The same sums, vectorised over channels and without unused elements: out[(y * cols + x) *
  // channels + o] = bias[o] + sum over t of w[t * channels + o] in[offset[t] + y * width + x].
  // REQUIRES: channels is a multiple of `lanes`.
  struct Transposed {
    const float *in, *w, *bias;
    const int32_t* offset;
    int64_t taps, channels, rows, cols, width;
    float* out;
  };
  void (*transposed)(const Transposed& args);
  int64_t lanes;  // f32 elements of a vector

  // acc[(o * taps + t) * kLanesMax + lane] += sum over images i and p in [0, length) of g[i *
  // g_stride + o * g_ld + p] in[i * in_stride + offset[t] + p]. Only p with p = lane modulo the
  // vector width are in the sum of a lane.
  struct Weights {
    const float *in, *g;
    const int32_t* offset;
    int64_t taps, channels, length, g_ld;
    int64_t images, in_stride, g_stride;
    float* acc;
  };
  void (*weights)(const Weights& args);

  // The same sums, vectorised over channels and without unused elements: acc[(o / lanes * taps + t)
  // * kLanesMax + o % lanes] += sum over images i, rows y and columns x of g[i * g_stride + (y *
  // cols + x) * channels + o] in[i * in_stride + offset[t] + y * width + x]. REQUIRES: channels is
  // a multiple of `lanes`.
  struct WeightsTransposed {
    const float *in, *g;
    const int32_t* offset;
    int64_t taps, channels, rows, cols, width;
    int64_t images, in_stride, g_stride;
    float* acc;
  };
  void (*weights_transposed)(const WeightsTransposed& args);

  // gin[c * plane + offset[t] + p] += sum over output channels o of w[(t * out_channels + o) *
  // channels + c] g[o * length + p], p in [0, length). t counts the filter's positions; offset is
  // the offset within a plane.
  struct Inputs {
    const float *g, *w;
    const int32_t* offset;
    int64_t positions, channels, out_channels, length, plane;
    float* gin;
  };
  void (*inputs)(const Inputs& args);

  // Copies `rows` short rows of n elements. Rows are from_ld and to_ld elements apart.
  void (*copy_rows)(const float* from, int64_t from_ld, float* to, int64_t to_ld, int64_t rows,
                    int64_t n);
};

const ConvLoops& BestConvLoops();

extern const ConvLoops kConvLoopsBase, kConvLoopsAvx2, kConvLoopsAvx512;

}  // namespace tandem
