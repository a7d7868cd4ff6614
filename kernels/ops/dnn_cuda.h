// cuDNN on a device.
#pragma once

#include "kernels/ops/cuda_launch.h"
#include "kernels/ops/dnn_status.h"

namespace tandem {

// A device with this cuDNN, for what is measured once on it.
inline StatusOr<std::string> DnnMachine(const Place& place) {
  cudaDeviceProp device{};
  TD_RETURN_IF_ERROR(CheckCuda(cudaGetDeviceProperties(&device, place.index), "the device's name"));
  return absl::StrFormat("%s; %d multiprocessors; cuDNN %d", device.name,
                         device.multiProcessorCount, cudnnGetVersion());
}

}  // namespace tandem
