// The CPU kernels of the element-wise optimizers: one vector loop over the whole parameter or over
// the rows of a sparse gradient.
#pragma once

#include <vector>

#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/update_loops.h"
#include "kernels/ops/update/optimizer_args.h"
#include "kernels/ops/update/optimizer_op.h"

namespace tandem {

struct UpdateState {
  UpdateFn loop = nullptr;
  UpdateArgs args;   // lr is read in each run
  size_t slots = 0;  // including the scalars
  size_t full = 0;   // slots of the parameter's shape; they come first
  int64_t n = 0;     // elements of the parameter
  int parts = 1;
  // Only for a sparse gradient:
  bool sparse = false;
  bool every_row = false;      // also updates rows that the gradient does not contain
  int64_t count = 0, dim = 0;  // rows of the gradient; elements of a row
  std::vector<float> zeros;    // the gradient of rows that it does not contain

  float lr(const KernelArgs& a) const { return *InF32(a, static_cast<int>(LearningRateAt(slots))); }
};

// `scalars`: see InferOptimizer. INVALID_ARGUMENT: an optional slot is only an input or only an
// output.
StatusOr<UpdateState> MakeUpdate(const OpView& view, const PrepareContext& ctx, UpdateFn loop,
                                 const UpdateArgs& args, int scalars = 0);

// Updates the parameter and the full slots. The caller updates scalar slots.
Status RunUpdate(const UpdateState& state, const UpdateArgs& args, const KernelArgs& kernel);

// A kernel body for optimizers in which only the learning rate changes from step to step.
Status RunPlainUpdate(UpdateState& state, const KernelArgs& kernel);

}  // namespace tandem
