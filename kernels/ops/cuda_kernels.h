// The CUDA kernels, for the table in kernels/exec/cuda_module.cu.
#pragma once

#include "kernels/ops/op.h"

namespace tandem {

StatusOr<Kernel> PrepareSgdCuda(const OpView& view, const PrepareContext& context);

}  // namespace tandem
