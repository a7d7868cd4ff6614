// The CUDA device. Part of libtandem_cuda.so only.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <memory>

#include "common/tensor/device.h"

namespace tandem {

// What a kernel found wrong in its data. In host memory that the device writes: the first one to
// set `taken` fills in the rest, and the device's next Synchronize() makes an error of it.
struct CudaFault {
  enum Input : int {
    kIds,
    kLabel,
    kPositionSamples,
    kLengths,
    kRows,
    // Of the next ones `at` alone counts.
    kProbability,
    kLearningRate,
    kSparsity,
    // Of deep gradient compression, with words of their own.
    kCapacity,
    kSelection,
    kSelectedIndex,
    // Of sample_image. `limit` of a tap: its image.
    kImage,
    kTap
  };
  int taken;
  Input input;
  int64_t at, value, limit;  // element `at` of it is `value`; it must be in [0, limit)
};

// What Device::stream(), and so KernelArgs::stream, is on a CUDA device: the compute stream, and
// the libraries' handles, which work on it.
struct CudaStream {
  cudaStream_t stream;
  cublasLtHandle_t blas;
  cudnnHandle_t dnn;
  CudaFault* fault;
};

// How many devices there are. UNAVAILABLE with the reason when CUDA cannot be used at all.
StatusOr<int> CudaDeviceCount();

// Device `index` with a stream of its own. REQUIRES: index < CudaDeviceCount().
StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int index, const DeviceMemoryOptions& memory);

// BackendModule::copy.
Status StartCudaCopy(Device& device, const SideStream* side, void* to, const void* from,
                     size_t bytes);

}  // namespace tandem
