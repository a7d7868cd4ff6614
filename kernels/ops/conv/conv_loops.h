// Vector loops for convolutions with stride 1. They are compiled once per instruction set, like
// loops.h. In contrast to loops.h, they use fused multiply-adds.
//
// All loops work on planes that are padded with zeros and stored one after another. A plane is
// treated as one long row. The rows of an output plane have the width of the padded input, so the
// last elements of each row are unused. An output plane is a sum over the filter taps. Each summand
// is the input, shifted by offset[tap] and multiplied by a weight. This is an implicit im2col: the
// input is not unfolded.
#pragma once

#include <cstdint>

namespace tandem::ops {

struct ConvLoops {
  static constexpr int64_t kLanesMax = 16;

  // Computes out[o * out_ld + p] = bias[o] + sum over taps t of w[t * channels + o] in[offset[t] +
  // p], for p in [0, length). `length` is a multiple of kLanesMax. `bias` may be nullptr.
  struct Forward {
    const float *in, *w, *bias;
    const int32_t* offset;
    int64_t taps, channels, length;
    float* out;
    int64_t out_ld;
  };
  void (*forward)(const Forward& args);

  // Computes the same sums as Forward, but with vectors of channels and without unused elements:
  // out[(y * cols + x) * channels + o] = bias[o] + sum over t of w[t * channels + o] in[offset[t] +
  // y * width + x]. REQUIRES: `channels` is a multiple of `lanes`.
  struct Transposed {
    const float *in, *w, *bias;
    const int32_t* offset;
    int64_t taps, channels, rows, cols, width;
    float* out;
  };
  void (*transposed)(const Transposed& args);
  int64_t lanes;  // number of f32 elements in a vector

  // Adds to acc[(o * taps + t) * kLanesMax + lane] the sum over images i and p in [0, length) of
  // g[i * g_stride + o * g_ld + p] in[i * in_stride + offset[t] + p]. A lane sums only the p that
  // equal `lane` modulo the vector width.
  struct Weights {
    const float *in, *g;
    const int32_t* offset;
    int64_t taps, channels, length, g_ld;
    int64_t images, in_stride, g_stride;
    float* acc;
  };
  void (*weights)(const Weights& args);

  // Computes the same sums as Weights, but with vectors of channels and without unused elements.
  // Adds to acc[(o / lanes * taps + t) * kLanesMax + o % lanes] the sum over images i, rows y and
  // columns x of g[i * g_stride + (y * cols + x) * channels + o] in[i * in_stride + offset[t] + y *
  // width + x]. REQUIRES: `channels` is a multiple of `lanes`.
  struct WeightsTransposed {
    const float *in, *g;
    const int32_t* offset;
    int64_t taps, channels, rows, cols, width;
    int64_t images, in_stride, g_stride;
    float* acc;
  };
  void (*weights_transposed)(const WeightsTransposed& args);

  // Adds to gin[c * plane + offset[t] + p] the sum over output channels o of w[(t * out_channels +
  // o) * channels + c] g[o * length + p], for each filter position t and for p in [0, length).
  // offset[t] is the offset of position t within a plane.
  struct Inputs {
    const float *g, *w;
    const int32_t* offset;
    int64_t positions, channels, out_channels, length, plane;
    float* gin;
  };
  void (*inputs)(const Inputs& args);

  // Copies `rows` short rows of `n` elements. The distance between the starts of two rows is
  // from_ld or to_ld elements.
  void (*copy_rows)(const float* from, int64_t from_ld, float* to, int64_t to_ld, int64_t rows,
                    int64_t n);
};

const ConvLoops& BestConvLoops();

extern const ConvLoops kConvLoopsBase, kConvLoopsAvx2, kConvLoopsAvx512;

}  // namespace tandem::ops
