// Host memory that CUDA devices access directly. Part of libtandem_cuda.so only.
#pragma once

#include "common/tensor/device.h"

namespace tandem {

// Allocates page-locked memory, for all devices. RESOURCE_EXHAUSTED: out of page-locked memory.
StatusOr<Buffer> PinnedMemory(size_t bytes);

}  // namespace tandem
