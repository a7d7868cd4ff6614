// The CPU side of the element-wise optimizers: one vector loop run over the parameter, whole or by
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
  UpdateArgs args;   // lr is read at each run
  size_t slots = 0;  // with the scalars
  size_t full = 0;   // slots of the parameter's shape, first
  int64_t n = 0;     // elements of the parameter
  int parts = 1;
  // A sparse gradient alone:
  bool sparse = false;
  bool every_row = false;      // also those that the gradient lacks
  int64_t count = 0, dim = 0;  // rows of the gradient, elements of a row
  std::vector<float> zeros;    // the gradient of rows that it lacks

  float lr(const KernelArgs& a) const { return *InF32(a, static_cast<int>(LearningRateAt(slots))); }
};

// `scalars` as in InferOptimizer. INVALID_ARGUMENT when an optional slot is given on one side
// alone.
StatusOr<UpdateState> MakeUpdate(const OpView& view, const PrepareContext& ctx, UpdateFn loop,
                                 const UpdateArgs& args, int scalars = 0);

// Updates the parameter and the full slots; scalar slots are the caller's.
Status RunUpdate(const UpdateState& state, const UpdateArgs& args, const KernelArgs& kernel);

// A kernel's body where nothing but the learning rate changes from step to step.
Status RunPlainUpdate(UpdateState& state, const KernelArgs& kernel);

}  // namespace tandem
