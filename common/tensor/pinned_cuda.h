// Host memory that CUDA devices can access directly. Only libtandem_cuda.so contains this code.
#pragma once

#include "common/tensor/device.h"

namespace tandem {

// Allocates `bytes` bytes of page-locked host memory, which all CUDA devices can access.
// RESOURCE_EXHAUSTED: there is no page-locked memory left.
StatusOr<Buffer> PinnedMemory(size_t bytes);

}  // namespace tandem
