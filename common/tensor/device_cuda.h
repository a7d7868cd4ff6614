// The CUDA device. Part of libtandem_cuda.so only.
#pragma once

#include <memory>

#include "common/tensor/device.h"

namespace tandem {

// How many devices there are. UNAVAILABLE with the reason when CUDA cannot be used at all.
StatusOr<int> CudaDeviceCount();

// Device `index` with a stream of its own. REQUIRES: index < CudaDeviceCount().
StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int index);

}  // namespace tandem
