// Vector loops for the optimizers, compiled once per instruction set. They give the same guarantee
// as loops.h: every element is computed with the same IEEE operations, wherever it is. A parameter
// may therefore be split anywhere. Outputs may be the inputs.
#pragma once

#include <cstdint>

#include "kernels/ops/formulas/update_args.h"

namespace tandem {

// A run of elements of a parameter. Slots are in the operator's order; missing slots are nullptr.
struct UpdateRun {
  const float *p, *g;
  const float* s[kUpdateSlotsMax];
  float* po;
  float* so[kUpdateSlotsMax];
  int64_t n;
};

using UpdateFn = void (*)(const UpdateArgs& args, const UpdateRun& run);

struct UpdateLoops {
  // The operators' definitions contain the formulas (sgd.cc, ...).
  UpdateFn sgd, momentum, adam, adagrad, decayed_adagrad, adamax, rmsprop, ftrl, lars;
  // Slots 0 and 1 are the moments. po becomes the direction of LAMB, not the parameter. args.lr is
  // 1 / (1 - Beta1Pow) and args.keep is 1 / (1 - Beta2Pow).
  UpdateFn lamb;
  // out = g + l2 p + l1 sign(p).
  void (*regularize)(const float* p, const float* g, float l1, float l2, float* out, int64_t n);
  // out = x limited to [low, high]. NaN stays NaN.
  void (*clip)(const float* x, float low, float high, float* out, int64_t n);
  // Sum of squares of x in 16 lanes by index modulo 16. The lanes are then added in order.
  float (*sum_squares)(const float* x, int64_t n);
};

// Returns the table for the best instruction set of this machine.
const UpdateLoops& BestUpdateLoops();

extern const UpdateLoops kUpdateLoopsBase, kUpdateLoopsAvx2, kUpdateLoopsAvx512;

}  // namespace tandem
