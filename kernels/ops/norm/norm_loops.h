// Vector loops for batch normalisation, compiled once per instruction set as in loops.h.
//
// The loops over runs process runs of `n` elements in 16 lanes by index modulo 16. Each statistic
// has one value per lane. A run is a plane of one channel (all lanes have the same value) or a
// plane of 16 interleaved channels (one channel per lane). Outputs may be the inputs.
#pragma once

#include <cstdint>

namespace tandem {

struct NormLoops {
  static constexpr int64_t kLanes = 16;

  // y = (x - mean) scale + bias, plus z if present, then relu.
  struct Apply {
    const float *x, *z;  // z: nullptr if nothing is added
    const float *mean, *scale, *bias;
    bool relu;
    float* y;
  };
  // g' is g if y > 0, else 0. Without y, g' is g.
  struct Grad {
    const float *x, *y, *g;  // y: nullptr without relu
    const float *mean, *scale;
    const float *mean_g, *slope;
    float *gx, *gz;  // each may be nullptr
  };

  // sum[lane] = sum of x.
  void (*sums)(const float* x, int64_t n, float* sum);
  // sum[lane] = sum of (x - center)^2.
  void (*squares)(const float* x, const float* center, int64_t n, float* sum);
  void (*apply)(const Apply& args, int64_t n);
  // sum_g[lane] = sum of g', sum_gx[lane] = sum of g' (x - mean). Reads x, y, g, mean.
  void (*grad_sums)(const Grad& args, int64_t n, float* sum_g, float* sum_gx);
  // gx = scale (g' - mean_g - (x - mean) slope), gz = g'.
  void (*grad)(const Grad& args, int64_t n);

  // The same functions over `rows` rows of `channels` elements, with one value of each statistic
  // per channel. The sums are added to the previous values.
  void (*row_sums)(const float* x, int64_t rows, int64_t channels, float* sum);
  // Sums of x - center and of its square.
  void (*row_deviations)(const float* x, const float* center, int64_t rows, int64_t channels,
                         float* sum, float* squares);
  void (*row_apply)(const Apply& args, int64_t rows, int64_t channels);
  void (*row_grad_sums)(const Grad& args, int64_t rows, int64_t channels, float* sum_g,
                        float* sum_gx);
  void (*row_grad)(const Grad& args, int64_t rows, int64_t channels);
};

// Returns the table for the best instruction set of this machine.
const NormLoops& BestNormLoops();

extern const NormLoops kNormLoopsBase, kNormLoopsAvx2, kNormLoopsAvx512;

}  // namespace tandem
