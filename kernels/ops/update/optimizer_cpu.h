// The CPU kernels of the element-wise optimizers. A kernel is a vector loop over the whole
// parameter, or over the rows of a sparse gradient.
#pragma once

#include <vector>

#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/update_loops.h"
#include "kernels/ops/update/optimizer_args.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem::ops {

struct UpdateState {
  UpdateFn loop = nullptr;
  UpdateArgs args;   // arguments of the formula; each run reads lr from input LearningRate
  size_t slots = 0;  // number of slots, including slots of one element
  size_t full = 0;   // number of slots with the parameter's shape, which come first
  int64_t n = 0;     // number of elements of the parameter
  int parts = 1;
  // If true, the gradient is sparse. The members below are used only for a sparse gradient.
  bool sparse = false;
  bool every_row = false;      // true: rows that the gradient does not contain are updated too
  int64_t count = 0, dim = 0;  // rows of the gradient, and elements per row
  // Zeros: the gradient of a row that the sparse gradient does not contain.
  std::vector<float> zeros;

  float lr(const KernelArgs& a) const { return *InF32(a, static_cast<int>(LearningRateAt(slots))); }
};

// Prepares the state of an optimizer kernel. `scalars`: number of slots of one element
// (InferOptimizer). INVALID_ARGUMENT: an optional slot is present only as input or only as output.
StatusOr<UpdateState> MakeUpdate(const OpView& view, const PrepareContext& ctx, UpdateFn loop,
                                 const UpdateArgs& args, int scalars = 0);

// Updates the parameter and the slots with the shape of the parameter. The caller must update slots
// of one element.
Status RunUpdate(const UpdateState& state, const UpdateArgs& args, const KernelArgs& kernel);

// The kernel function of optimizers in which only the learning rate changes from step to step.
Status RunPlainUpdate(UpdateState& state, const KernelArgs& kernel);

}  // namespace tandem::ops
