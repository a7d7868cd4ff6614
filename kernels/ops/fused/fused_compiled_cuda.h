// Runs fused_elementwise as one kernel, which is compiled for the current device when a plan is
// made. All groups run in one launch, or in several if there are too many addresses. One more
// launch does the work that must follow all elements (powers of beta).
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

// UNIMPLEMENTED: NVRTC is missing or does not support this device, or the CUDA runtime cannot load
// code.
StatusOr<Kernel> PrepareCompiled(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem::ops
