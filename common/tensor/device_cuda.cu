#include "common/tensor/device_cuda.h"

#include "common/tensor/device_pool.h"
#include "common/tensor/pinned_cuda.h"
#include "common/tensor/staging_ring.h"

namespace tandem {
namespace {

Status CudaStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return OkStatus();
  if (error == cudaErrorMemoryAllocation) {
    return ResourceExhausted(
        "the CUDA call \"%s\" failed: %s [TD5004]; hint: use a smaller batch, or run tandem lint "
        "--memory JOB",
        what, cudaGetErrorString(error));
  }
  return Unavailable("the CUDA call \"%s\" failed: %s", what, cudaGetErrorString(error));
}

Status StatusOf(const CudaFault& fault) {
  const char* input = "an input";
  switch (fault.input) {
    case CudaFault::kIds:
      input = "Ids";
      break;
    case CudaFault::kLabel:
      input = "Label";
      break;
    case CudaFault::kPositionSamples:
      input = "Position (samples, a divisor of X's elements)";
      break;
    case CudaFault::kLengths:
      input = "Lengths";
      break;
    case CudaFault::kRows:
      input = "Rows";
      break;
    case CudaFault::kProbability:
      return InvalidArgument("auc: the probability in row %d is out of range, expected 0 to 1",
                             fault.at);
    case CudaFault::kLearningRate:
      return InvalidArgument(
          "the optimizer divides by the learning rate, which must be above 0 but is not");
    case CudaFault::kSparsity:
      return InvalidArgument("dgc: Sparsity is out of range, expected at least 0 and below 1");
    case CudaFault::kCapacity:
      return InvalidArgument("dgc: Sparsity selects %d elements, but capacity is %d", fault.value,
                             fault.limit);
    case CudaFault::kSelection:
      return InvalidArgument("dgc: selection %d has %d elements, but there is room for %d",
                             fault.at, fault.value, fault.limit);
    case CudaFault::kSelectedIndex:
      return InvalidArgument(
          "dgc: index %d at position %d is out of range or out of order in a selection of %d "
          "elements",
          fault.value, fault.at, fault.limit);
    case CudaFault::kImage:
      return InvalidArgument(
          "resize_images: image %d lies outside of Pixels, or is larger than twice the result",
          fault.at);
    case CudaFault::kTap:
      return InvalidArgument(
          "resize_images: element %d of Taps is %d, which is outside of image %d", fault.at,
          fault.value, fault.limit);
  }
  return InvalidArgument("element %d of %s is %d, expected 0 to %d", fault.at, input, fault.value,
                         fault.limit - 1);
}

class CudaSideStream final : public SideStream {
 public:
  CudaSideStream(int device, cudaStream_t compute) : device_(device), compute_(compute) {}
  ~CudaSideStream() override {
    (void)cudaSetDevice(device_);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }

  Status Open() {
    TD_RETURN_IF_ERROR(Enter());
    return CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                      "cudaStreamCreate");
  }

  void* handle() const override { return stream_; }
  Status Enter() override { return CudaStatus(cudaSetDevice(device_), "cudaSetDevice"); }
  StatusOr<Mark> RecordComputeEvent() override {
    TD_RETURN_IF_ERROR(Enter());
    cudaEvent_t event = nullptr;
    TD_RETURN_IF_ERROR(
        CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate"));
    Mark mark(event, [](void* e) { (void)cudaEventDestroy(static_cast<cudaEvent_t>(e)); });
    TD_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(event, compute_), "cudaEventRecord"));
    return mark;
  }
  Status WaitOn(const Mark& mark) override {
    TD_RETURN_IF_ERROR(Enter());
    return CudaStatus(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(mark.get()), 0),
                      "cudaStreamWaitEvent");
  }
  StatusOr<bool> Idle() override {
    const cudaError_t error = cudaStreamQuery(stream_);
    if (error == cudaErrorNotReady) {
      (void)cudaGetLastError();  // clears CUDA's error state, because this result is no error
      return false;
    }
    TD_RETURN_IF_ERROR(CudaStatus(error, "cudaStreamQuery"));
    return true;
  }

 private:
  const int device_;
  const cudaStream_t compute_;
  cudaStream_t stream_ = nullptr;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, const DeviceMemoryOptions& memory)
      : index_(index), pool_(ToString(place()), Driver(), memory) {}
  ~CudaDevice() override {
    (void)cudaSetDevice(index_);
    if (work_.dnn != nullptr) (void)cudnnDestroy(work_.dnn);
    if (work_.blas != nullptr) (void)cublasLtDestroy(work_.blas);
    if (work_.fault != nullptr) (void)cudaFreeHost(work_.fault);
    // The stream may still be copying from the ring, so the destructor waits for the copies.
    if (work_.stream != nullptr) (void)cudaStreamSynchronize(work_.stream);
    for (const cudaEvent_t event : staged_) {
      if (event != nullptr) (void)cudaEventDestroy(event);
    }
    if (work_.stream != nullptr) (void)cudaStreamDestroy(work_.stream);
  }

  Status Open();

  Place place() const override { return {PlaceKind::kCuda, index_}; }
  void* stream() const override { return const_cast<CudaStream*>(&work_); }

  StatusOr<std::unique_ptr<SideStream>> MakeSideStream() override {
    auto side = std::make_unique<CudaSideStream>(index_, work_.stream);
    TD_RETURN_IF_ERROR(side->Open());
    return std::unique_ptr<SideStream>(std::move(side));
  }

  StatusOr<Buffer> Allocate(size_t bytes) override {
    TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index_), "cudaSetDevice"));
    TD_ASSIGN_OR_RETURN(std::byte* const memory, pool_.Take(bytes));
    const auto size = static_cast<int64_t>(bytes);
    Account(size);
    return Buffer(memory, [this, size](std::byte* p) {
      pool_.Give(p);
      Account(-size);
    });
  }
  DeviceMemoryCounts memory_counts() const override { return pool_.counts(); }

  // Copies from host memory. Blocks only for large copies: small ones go through the staging ring.
  // Later work of the compute stream sees the data in both cases.
  Status CopyFromHost(void* dst, const void* src, size_t bytes) override {
    if (bytes > 0 && StagingRing::Takes(bytes)) {
      TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index_), "cudaSetDevice"));
      return ring_->Copy(dst, src, bytes);
    }
    return Copy(dst, src, bytes, cudaMemcpyHostToDevice, "cudaMemcpy to the device");
  }

  Status CopyToHost(void* dst, const void* src, size_t bytes) override {
    return Copy(dst, src, bytes, cudaMemcpyDeviceToHost, "cudaMemcpy from the device");
  }

  Status Synchronize() override {
    TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index_), "cudaSetDevice"));
    TD_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(work_.stream), "cudaStreamSynchronize"));
    if (work_.fault->taken == 0) return OkStatus();
    const CudaFault fault = *work_.fault;
    *work_.fault = {};
    return StatusOf(fault);
  }

 private:
  // Copies bytes on the compute stream. Every run of a plan begins with copies on the plan's
  // thread, so the copy also selects the device for that thread's kernels.
  Status Copy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind, const char* what) {
    TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index_), "cudaSetDevice"));
    if (bytes == 0) return Synchronize();
    TD_RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(dst, src, bytes, kind, work_.stream), what));
    return Synchronize();
  }
  Status OpenRing();
  DevicePool::Driver Driver() const {
    return {.allocate =
                [device = index_](size_t bytes) {
                  void* memory = nullptr;
                  (void)cudaSetDevice(device);
                  const bool given = cudaMalloc(&memory, bytes) == cudaSuccess;
                  // Clears CUDA's error state, because the pool reports the error.
                  if (!given) (void)cudaGetLastError();
                  return given ? static_cast<std::byte*>(memory) : nullptr;
                },
            .free = [](std::byte* memory) { (void)cudaFree(memory); },
            .free_bytes =
                [] {
                  size_t free = 0, total = 0;
                  (void)cudaMemGetInfo(&free, &total);
                  return free;
                }};
  }

  const int index_;
  DevicePool pool_;
  CudaStream work_{};
  Buffer ring_memory_;
  // For each slot, the event after the last copy from it.
  std::array<cudaEvent_t, StagingRing::kSlots> staged_{};
  std::unique_ptr<StagingRing> ring_;
};

Status CudaDevice::OpenRing() {
  for (cudaEvent_t& event : staged_) {
    TD_RETURN_IF_ERROR(
        CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate"));
  }
  TD_ASSIGN_OR_RETURN(ring_memory_, PinnedMemory(StagingRing::kBytes));
  ring_ = std::make_unique<StagingRing>(
      ring_memory_.get(),
      StagingRing::Driver{
          .copy =
              [this](void* to, const void* from, size_t bytes) {
                return CudaStatus(
                    cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, work_.stream),
                    "cudaMemcpy to the device");
              },
          .mark =
              [this](size_t slot) {
                return CudaStatus(cudaEventRecord(staged_[slot], work_.stream), "cudaEventRecord");
              },
          .wait =
              [this](size_t slot) {
                return CudaStatus(cudaEventSynchronize(staged_[slot]), "cudaEventSynchronize");
              }});
  return OkStatus();
}

Status CudaDevice::Open() {
  TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(index_), "cudaSetDevice"));
  TD_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&work_.stream, cudaStreamNonBlocking),
                                "cudaStreamCreate"));
  void* fault = nullptr;
  TD_RETURN_IF_ERROR(
      CudaStatus(cudaHostAlloc(&fault, sizeof(CudaFault), cudaHostAllocMapped), "cudaHostAlloc"));
  work_.fault = new (fault) CudaFault{};
  TD_RETURN_IF_ERROR(OpenRing());
  if (const cublasStatus_t status = cublasLtCreate(&work_.blas); status != CUBLAS_STATUS_SUCCESS) {
    return Unavailable("cannot initialise cuBLASLt: %s [TD5001]", cublasLtGetStatusString(status));
  }
  cudnnStatus_t status = cudnnCreate(&work_.dnn);
  if (status == CUDNN_STATUS_SUCCESS) status = cudnnSetStream(work_.dnn, work_.stream);
  if (status == CUDNN_STATUS_SUCCESS) return OkStatus();
  return Unavailable("cannot initialise cuDNN %d: %s [TD5001]", cudnnGetVersion(),
                     cudnnGetErrorString(status));
}

}  // namespace

StatusOr<int> CudaDeviceCount() {
  int count = 0, driver = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();  // clears CUDA's error state: the error is reported here
  if (error == cudaErrorNoDevice) return 0;
  if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess) {
    if (driver == 0)
      return Unavailable(
          "this machine has no NVIDIA driver (libcuda.so.1) [TD5002]; hint: install the driver, or "
          "use --place=cpu");
    return Unavailable(
        "the NVIDIA driver supports CUDA %d.%d, but this program needs CUDA %d.%d or newer "
        "[TD5001]; hint: install a newer driver",
        driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  }
  TD_RETURN_IF_ERROR(CudaStatus(error, "cudaGetDeviceCount"));
  return count;
}

StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int index, const DeviceMemoryOptions& memory) {
  auto device = std::make_unique<CudaDevice>(index, memory);
  TD_RETURN_IF_ERROR(device->Open());
  return std::unique_ptr<Device>(std::move(device));
}

Status StartCudaCopy(Device& device, const SideStream* side, void* to, const void* from,
                     size_t bytes) {
  TD_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device.place().index), "cudaSetDevice"));
  const cudaStream_t stream = side != nullptr
                                  ? static_cast<cudaStream_t>(side->handle())
                                  : static_cast<const CudaStream*>(device.stream())->stream;
  return CudaStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copy");
}

StatusOr<Buffer> PinnedMemory(size_t bytes) {
  void* memory = nullptr;
  TD_RETURN_IF_ERROR(CudaStatus(
      cudaHostAlloc(&memory, std::max<size_t>(bytes, 1), cudaHostAllocPortable), "cudaHostAlloc"));
  return Buffer(static_cast<std::byte*>(memory), [](std::byte* p) { (void)cudaFreeHost(p); });
}

}  // namespace tandem
