// Vector loops for the optimizers, compiled once per instruction set. As in loops.h, every element
// is computed with the same IEEE operations, independent of its position. Therefore a parameter may
// be split between any two elements. An output may be the same memory as an input.
#pragma once

#include <cstdint>

#include "kernels/ops/formulas/update_args.h"

namespace tandem::ops {

// A contiguous part of a parameter, its gradient and its slots. Slots are in the order of the
// operator's inputs. A missing slot is nullptr.
struct UpdateRun {
  const float *p, *g;
  const float* s[kUpdateSlotsMax];
  float* po;
  float* so[kUpdateSlotsMax];
  int64_t n;
};

using UpdateFn = void (*)(const UpdateArgs& args, const UpdateRun& run);

struct UpdateLoops {
  // Each function computes one step of an optimizer. The operators' definitions (sgd.cc, ...)
  // contain the formulas.
  UpdateFn sgd, momentum, adam, adagrad, decayed_adagrad, adamax, rmsprop, ftrl, lars;
  // The first half of a LAMB step. Slots 0 and 1 are the moments. Writes the direction of the step
  // to po, not the updated parameter. args.lr is 1 / (1 - Beta1Pow), and args.keep is 1 / (1 -
  // Beta2Pow).
  UpdateFn lamb;
  // Computes out = g + l2 p + l1 sign(p).
  void (*regularize)(const float* p, const float* g, float l1, float l2, float* out, int64_t n);
  // Limits x to [low, high]. NaN stays NaN.
  void (*clip)(const float* x, float low, float high, float* out, int64_t n);
  // Returns the sum of the squares of x. Element i is added to lane i % 16. The 16 lanes are then
  // added in order.
  float (*sum_squares)(const float* x, int64_t n);
};

// Returns the loops for the best instruction set of this machine.
const UpdateLoops& BestUpdateLoops();

extern const UpdateLoops kUpdateLoopsBase, kUpdateLoopsAvx2, kUpdateLoopsAvx512;

}  // namespace tandem::ops
