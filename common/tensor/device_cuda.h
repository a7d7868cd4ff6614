// The CUDA device. Part of libtandem_cuda.so only.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <memory>

#include "common/tensor/device.h"

namespace tandem {

// An error that a kernel found in its data. It is in host memory that the device writes. The first
// kernel that sets `taken` fills in the rest, and the device's next Synchronize() returns it as an
// error.
struct CudaFault {
  enum Input : int {
    kIds,
    kLabel,
    kPositionSamples,
    kLengths,
    kRows,
    // For the next ones, only `at` is set.
    kProbability,
    kLearningRate,
    kSparsity,
    // Deep gradient compression. These have their own messages.
    kCapacity,
    kSelection,
    kSelectedIndex,
    // For sample_image. `limit` of a tap is its image.
    kImage,
    kTap
  };
  int taken;
  Input input;
  int64_t at, value, limit;  // element `at` of the input is `value`; it must be in [0, limit)
};

// The value of Device::stream(), and so of KernelArgs::stream, on a CUDA device: the compute stream
// and the library handles that use it.
struct CudaStream {
  cudaStream_t stream;
  cublasLtHandle_t blas;
  cudnnHandle_t dnn;
  CudaFault* fault;
};

// Returns the number of devices. UNAVAILABLE: CUDA is not usable; the message has the reason.
StatusOr<int> CudaDeviceCount();

// Returns device `index` with its own stream. REQUIRES: index < CudaDeviceCount().
StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int index, const DeviceMemoryOptions& memory);

// Implements BackendModule::copy.
Status StartCudaCopy(Device& device, const SideStream* side, void* to, const void* from,
                     size_t bytes);

}  // namespace tandem
