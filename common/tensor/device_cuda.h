// The CUDA device. Only libtandem_cuda.so contains it.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <memory>

#include "common/tensor/device.h"

namespace tandem {

// An error that a kernel found in its input data. The struct is in host memory to which the device
// writes. The first kernel that sets `taken` also sets the other fields. The next Synchronize()
// returns the error.
struct CudaFault {
  enum Input : int {
    kIds,
    kLabel,
    kPositionSamples,
    kLengths,
    kRows,
    // For kProbability only the field `at` is set. For kLearningRate and kSparsity none of `at`,
    // `value` and `limit` is set.
    kProbability,
    kLearningRate,
    kSparsity,
    // Errors of deep gradient compression, which have their own messages.
    kCapacity,
    kSelection,
    kSelectedIndex,
    // Errors of sample_image. For kTap, `limit` is the number of the image.
    kImage,
    kTap
  };
  int taken;
  Input input;
  int64_t at, value, limit;  // element `at` of the input is `value`, which is not in [0, limit)
};

// The compute stream of a CUDA device, and the library handles that use this stream. On a CUDA
// device, Device::stream() and KernelArgs::stream point to a CudaStream.
struct CudaStream {
  cudaStream_t stream;
  cublasLtHandle_t blas;
  cudnnHandle_t dnn;
  CudaFault* fault;
};

// Returns the number of CUDA devices. UNAVAILABLE: CUDA is not usable; the message has the reason.
StatusOr<int> CudaDeviceCount();

// Returns CUDA device number `index`, with a new stream. REQUIRES: index < CudaDeviceCount().
StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int index, const DeviceMemoryOptions& memory);

// Starts a copy on the stream `side`, or on the compute stream if `side` is null. The CUDA module
// exports this function as BackendModule::copy.
Status StartCudaCopy(Device& device, const SideStream* side, void* to, const void* from,
                     size_t bytes);

}  // namespace tandem
