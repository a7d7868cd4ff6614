#include "common/tensor/device_cuda.h"

namespace tandem {
namespace {

Status CudaStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return OkStatus();
  if (error == cudaErrorMemoryAllocation) {
    return ResourceExhausted("%s: %s", what, cudaGetErrorString(error));
  }
  return Unavailable("%s: %s", what, cudaGetErrorString(error));
}

const char* NameOf(CudaFault::Input input) {
  switch (input) {
    case CudaFault::kIds:
      return "Ids";
    case CudaFault::kLabel:
      return "Label";
    case CudaFault::kPositionSamples:
      return "Position (samples, a divisor of X's elements)";
  }
  return "an input";
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) {}
  ~CudaDevice() override {
    (void)cudaSetDevice(index_);
    if (work_.dnn != nullptr) (void)cudnnDestroy(work_.dnn);
    if (work_.blas != nullptr) (void)cublasLtDestroy(work_.blas);
    if (work_.fault != nullptr) (void)cudaFreeHost(work_.fault);
    if (work_.stream != nullptr) (void)cudaStreamDestroy(work_.stream);
  }

  Status Open();

  Place place() const override { return {PlaceKind::kCuda, index_}; }
  void* stream() const override { return const_cast<CudaStream*>(&work_); }

  // cudaMalloc for each request; its blocks are aligned to 256 bytes.
  StatusOr<Buffer> Allocate(size_t bytes) override {
    void* memory = nullptr;
    TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index_), "cudaSetDevice"));
    const cudaError_t error = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) return OutOfMemory(bytes);
    TD_RETURN_IF_ERROR(CudaStatus(error, "cudaMalloc"));
    const auto size = static_cast<int64_t>(bytes);
    Account(size);
    return Buffer(static_cast<std::byte*>(memory), [this, size](std::byte* p) {
      (void)cudaFree(p);
      Account(-size);
    });
  }

  Status CopyFromHost(void* dst, const void* src, size_t bytes) override {
    return Copy(dst, src, bytes, cudaMemcpyHostToDevice, "copy to the device");
  }

  Status CopyToHost(void* dst, const void* src, size_t bytes) override {
    return Copy(dst, src, bytes, cudaMemcpyDeviceToHost, "copy from the device");
  }

  Status Synchronize() override {
    TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index_), "cudaSetDevice"));
    TD_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(work_.stream), "cudaStreamSynchronize"));
    if (work_.fault->taken == 0) return OkStatus();
    const CudaFault fault = *work_.fault;
    *work_.fault = {};
    return InvalidArgument("element %d of %s is %d; it must be in [0, %d)", fault.at,
                           NameOf(fault.input), fault.value, fault.limit);
  }

 private:
  // Copies come before every run of a plan, on its thread: kernels are launched on the device that
  // is chosen here.
  Status Copy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind, const char* what) {
    TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index_), "cudaSetDevice"));
    if (bytes == 0) return Synchronize();
    TD_RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(dst, src, bytes, kind, work_.stream), what));
    return Synchronize();
  }
  Status OutOfMemory(size_t bytes) {
    (void)cudaGetLastError();  // it is reported here, not by the next call
    size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    return ResourceExhausted("no memory for %d bytes on %s: %d of %d are free, %d are in use here",
                             bytes, ToString(place()), free, total, bytes_in_use());
  }

  const int index_;
  CudaStream work_{};
};

Status CudaDevice::Open() {
  TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index_), "cudaSetDevice"));
  TD_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&work_.stream, cudaStreamNonBlocking),
                                "cudaStreamCreate"));
  void* fault = nullptr;
  TD_RETURN_IF_ERROR(
      CudaStatus(cudaHostAlloc(&fault, sizeof(CudaFault), cudaHostAllocMapped), "cudaHostAlloc"));
  work_.fault = new (fault) CudaFault{};
  if (const cublasStatus_t status = cublasLtCreate(&work_.blas); status != CUBLAS_STATUS_SUCCESS) {
    return Unavailable("cublasLtCreate: %s", cublasLtGetStatusString(status));
  }
  cudnnStatus_t status = cudnnCreate(&work_.dnn);
  if (status == CUDNN_STATUS_SUCCESS) status = cudnnSetStream(work_.dnn, work_.stream);
  if (status == CUDNN_STATUS_SUCCESS) return OkStatus();
  return Unavailable("cuDNN %d: %s", cudnnGetVersion(), cudnnGetErrorString(status));
}

}  // namespace

StatusOr<int> CudaDeviceCount() {
  int count = 0, driver = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();  // it is reported here, not by the next call
  if (error == cudaErrorNoDevice) return 0;
  if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess) {
    if (driver == 0) return Unavailable("there is no NVIDIA driver (libcuda.so.1)");
    return Unavailable("the NVIDIA driver serves CUDA %d.%d, this program needs %d.%d or newer",
                       driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                       CUDART_VERSION % 1000 / 10);
  }
  TD_RETURN_IF_ERROR(CudaStatus(error, "looking for CUDA devices"));
  return count;
}

StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int index) {
  auto device = std::make_unique<CudaDevice>(index);
  TD_RETURN_IF_ERROR(device->Open());
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace tandem
