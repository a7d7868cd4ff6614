// Vector loops for batch normalisation, compiled once per instruction set as in loops.h.
//
// Most loops process a run of `n` elements: element i is in lane i % 16. Each statistic has one
// value per lane. A run is either a plane of one channel, whose statistics are equal in all lanes,
// or a plane of 16 interleaved channels, with the statistics of one channel in each lane. An output
// may be the same memory as an input.
#pragma once

#include <cstdint>

namespace tandem::ops {

struct NormLoops {
  static constexpr int64_t kLanes = 16;

  // Arguments for y = (x - mean) scale + bias + z. Without z (nullptr), nothing is added. If `relu`
  // is true, relu is then applied.
  struct Apply {
    const float *x, *z;  // z is nullptr if nothing is added
    const float *mean, *scale, *bias;
    bool relu;
    float* y;
  };
  // Arguments of the gradient. g' means g where y > 0 and 0 elsewhere. If y is nullptr, g' means g.
  struct Grad {
    const float *x, *y, *g;  // y is nullptr without relu
    const float *mean, *scale;
    const float *mean_g, *slope;
    float *gx, *gz;  // gx or gz is nullptr if it is not needed
  };

  // Computes sum[lane] = sum of x over the elements of the lane.
  void (*sums)(const float* x, int64_t n, float* sum);
  // Computes sum[lane] = sum of (x - center)^2 over the elements of the lane.
  void (*squares)(const float* x, const float* center, int64_t n, float* sum);
  void (*apply)(const Apply& args, int64_t n);
  // Computes sum_g[lane] = sum of g', sum_gx[lane] = sum of g' (x - mean). Reads x, y, g, mean.
  void (*grad_sums)(const Grad& args, int64_t n, float* sum_g, float* sum_gx);
  // Computes gx = scale (g' - mean_g - (x - mean) slope) and gz = g'.
  void (*grad)(const Grad& args, int64_t n);

  // The row_ functions compute the same as the functions above, over `rows` rows of `channels`
  // elements. Each statistic has one value per channel. The row_ functions add their sums to the
  // previous content of the output.
  void (*row_sums)(const float* x, int64_t rows, int64_t channels, float* sum);
  // Adds the sums of x - center to `sum` and the sums of (x - center)^2 to `squares`, per channel.
  void (*row_deviations)(const float* x, const float* center, int64_t rows, int64_t channels,
                         float* sum, float* squares);
  void (*row_apply)(const Apply& args, int64_t rows, int64_t channels);
  void (*row_grad_sums)(const Grad& args, int64_t rows, int64_t channels, float* sum_g,
                        float* sum_gx);
  void (*row_grad)(const Grad& args, int64_t rows, int64_t channels);
};

// Returns the loops for the best instruction set of this machine.
const NormLoops& BestNormLoops();

extern const NormLoops kNormLoopsBase, kNormLoopsAvx2, kNormLoopsAvx512;

}  // namespace tandem::ops
