// Vector loops of the optimizers, compiled once per instruction set like those of loops.h, with the
// same promise: every element is computed by the same IEEE operations wherever it stands, so that a
// parameter may be cut anywhere. Outputs may be the inputs.
#pragma once

#include <cstdint>

#include "kernels/ops/formulas/update_args.h"

namespace tandem {

// A run of a parameter. Slots in the order of the operator's; those it lacks are nullptr.
struct UpdateRun {
  const float *p, *g;
  const float* s[kUpdateSlotsMax];
  float* po;
  float* so[kUpdateSlotsMax];
  int64_t n;
};

using UpdateFn = void (*)(const UpdateArgs& args, const UpdateRun& run);

struct UpdateLoops {
  // The formulas stand in the operators' definitions (sgd.cc, ...).
  UpdateFn sgd, momentum, adam, adagrad, decayed_adagrad, adamax, rmsprop, ftrl, lars;
  // Slots 0 and 1 are the moments; po becomes the direction of LAMB, not the parameter. args.lr is
  // 1 / (1 - Beta1Pow), args.keep is 1 / (1 - Beta2Pow).
  UpdateFn lamb;
  // out = g + l2 p + l1 sign(p).
  void (*regularize)(const float* p, const float* g, float l1, float l2, float* out, int64_t n);
  // out = x within [low, high]; NaN stays.
  void (*clip)(const float* x, float low, float high, float* out, int64_t n);
  // Sum of squares of x in 16 lanes by index modulo 16, the lanes then added in order.
  float (*sum_squares)(const float* x, int64_t n);
};

// The table for the best instruction set of this machine.
const UpdateLoops& BestUpdateLoops();

extern const UpdateLoops kUpdateLoopsBase, kUpdateLoopsAvx2, kUpdateLoopsAvx512;

}  // namespace tandem
