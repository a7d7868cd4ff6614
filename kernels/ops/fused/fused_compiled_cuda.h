// Runs fused_elementwise as one kernel that is compiled for the current device when a plan is made.
// All groups run in one launch, or in as few launches as their addresses allow. One more launch
// does the work after all elements (powers of beta).
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

// UNIMPLEMENTED: there is no compiler, it does not support this device, or the CUDA runtime cannot
// load code.
StatusOr<Kernel> PrepareCompiled(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem
