#include <cuda_runtime.h>

#include "common/tensor/device_cuda.h"

namespace tandem {
namespace {

Status CudaStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return OkStatus();
  const Status status = Unavailable("%s: %s", what, cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? ResourceExhausted("%s: %s", what,
                                                                cudaGetErrorString(error))
                                            : status;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, cudaStream_t stream) : index_(index), stream_(stream) {}
  ~CudaDevice() override { cudaStreamDestroy(stream_); }

  Place place() const override { return {PlaceKind::kCuda, index_}; }
  void* stream() const override { return stream_; }

  // cudaMalloc for each request; its blocks are aligned to 256 bytes.
  StatusOr<Buffer> Allocate(size_t bytes) override {
    void* memory = nullptr;
    TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index_), "cudaSetDevice"));
    TD_RETURN_IF_ERROR(CudaStatus(cudaMalloc(&memory, bytes > 0 ? bytes : 1), "cudaMalloc"));
    const auto size = static_cast<int64_t>(bytes);
    Account(size);
    return Buffer(static_cast<std::byte*>(memory), [this, size](std::byte* p) {
      cudaFree(p);
      Account(-size);
    });
  }

  Status CopyFromHost(void* dst, const void* src, size_t bytes) override {
    TD_RETURN_IF_ERROR(CudaStatus(
        cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, stream_), "copy to the device"));
    return Synchronize();
  }

  Status CopyToHost(void* dst, const void* src, size_t bytes) override {
    TD_RETURN_IF_ERROR(CudaStatus(
        cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, stream_), "copy from the device"));
    return Synchronize();
  }

  Status Synchronize() override {
    return CudaStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

 private:
  const int index_;
  const cudaStream_t stream_;
};

}  // namespace

StatusOr<int> CudaDeviceCount() {
  int count = 0;
  TD_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceCount(&count), "looking for CUDA devices"));
  return count;
}

StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int index) {
  TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index), "cudaSetDevice"));
  cudaStream_t stream = nullptr;
  TD_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                                "cudaStreamCreate"));
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(index, stream));
}

}  // namespace tandem
