// Host memory that CUDA devices reach by themselves. Part of libtandem_cuda.so only.
#pragma once

#include "common/tensor/device.h"

namespace tandem {

// Page-locked, for all devices. RESOURCE_EXHAUSTED when there is none.
StatusOr<Buffer> PinnedMemory(size_t bytes);

}  // namespace tandem
