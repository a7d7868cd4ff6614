// cuDNN's descriptors, errors and version.
#pragma once

#include <memory>

#include "kernels/ops/cuda_launch.h"

namespace tandem {

// UNIMPLEMENTED where cuDNN does not serve this: others may.
inline Status DnnStatus(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return OkStatus();
  char why[256] = "";
  cudnnGetLastErrorString(why, sizeof(why));
  const std::string text =
      absl::StrFormat("cuDNN, %s: %s %s", what, cudnnGetErrorString(status), why);
  // One number for each reason, below the next kind of error.
  constexpr int kReasons = 1000;
  const bool unserved =
      status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_NOT_SUPPORTED + kReasons;
  return unserved ? Unimplemented("%s", text) : Internal("%s", text);
}

template <typename Descriptor>
using OwnedDnn = std::shared_ptr<std::remove_pointer_t<Descriptor>>;

template <typename Descriptor>
StatusOr<OwnedDnn<Descriptor>> MakeDnn(cudnnStatus_t (*create)(Descriptor*),
                                       cudnnStatus_t (*destroy)(Descriptor)) {
  Descriptor descriptor = nullptr;
  TD_RETURN_IF_ERROR(DnnStatus(create(&descriptor), "descriptor"));
  return OwnedDnn<Descriptor>(descriptor, destroy);
}

inline cudnnDataType_t DnnTypeOf(DType dtype) {
  return dtype == DType::kF16    ? CUDNN_DATA_HALF
         : dtype == DType::kBF16 ? CUDNN_DATA_BFLOAT16
                                 : CUDNN_DATA_FLOAT;
}

// A device with this cuDNN, for what is measured once on it.
inline StatusOr<std::string> DnnMachine(const Place& place) {
  cudaDeviceProp device{};
  TD_RETURN_IF_ERROR(CheckCuda(cudaGetDeviceProperties(&device, place.index), "the device's name"));
  return absl::StrFormat("%s; %d multiprocessors; cuDNN %d", device.name,
                         device.multiProcessorCount, cudnnGetVersion());
}

}  // namespace tandem
