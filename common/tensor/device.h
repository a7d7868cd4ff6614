// The interface of a device, which holds tensors and copies bytes to and from host memory. The CPU
// device is here; the CUDA module has its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/base/status.h"
#include "common/tensor/types.h"

namespace tandem {

// Memory of one allocation. The last reference frees it, on any thread. The device must outlive it.
using Buffer = std::shared_ptr<std::byte>;

// How much memory a device requests from its driver. Without a fraction and sizes, every allocation
// is a driver call.
struct DeviceMemoryOptions {
  double fraction = 0;     // of the free memory, for a chunk without a given size
  size_t first_bytes = 0;  // of the first chunk
  size_t more_bytes = 0;   // of each later chunk
  size_t limit_bytes = 0;  // of all chunks together; 0: no limit
};

struct DeviceMemoryCounts {
  int64_t driver_calls = 0;  // driver calls that requested memory
  size_t driver_bytes = 0;   // bytes that the driver has given and not received back
  size_t used_bytes = 0;     // part of driver_bytes that is in use
};

// A stream of device work beside the compute stream, for communication. Thread-safe. Its device
// must outlive it.
class SideStream {
 public:
  // An event in the compute stream.
  using Mark = std::shared_ptr<void>;

  virtual ~SideStream() = default;
  // The native stream for libraries: a cudaStream_t.
  virtual void* handle() const = 0;
  // Makes the device current on the calling thread, as libraries require before a call.
  virtual Status Enter() = 0;
  // Returns an event after all work that the compute stream has now.
  virtual StatusOr<Mark> RecordComputeEvent() = 0;
  // Makes all work submitted to this stream after this call wait for `mark` (cudaStreamWaitEvent).
  virtual Status WaitOn(const Mark& mark) = 0;
  // Returns whether all submitted work has ended. UNAVAILABLE: the device has failed.
  virtual StatusOr<bool> Idle() = 0;
};

// A device. Thread-safe.
class Device {
 public:
  static constexpr size_t kAlignment = 64;  // bytes; every allocation and every arena offset

  virtual ~Device() = default;
  virtual Place place() const = 0;
  // `bytes` >= 0 (0 gives a valid, empty buffer). The memory is aligned to kAlignment and not
  // initialised. RESOURCE_EXHAUSTED: out of memory.
  virtual StatusOr<Buffer> Allocate(size_t bytes) = 0;
  // Blocking copies between this device and host memory.
  virtual Status CopyFromHost(void* device_dst, const void* host_src, size_t bytes) = 0;
  virtual Status CopyToHost(void* host_dst, const void* device_src, size_t bytes) = 0;
  // Waits for all work that was started on the device.
  virtual Status Synchronize() = 0;
  virtual void* stream() const { return nullptr; }  // the compute stream; nullptr: none
  // Memory that the device has from its driver; zero if it has no driver.
  virtual DeviceMemoryCounts memory_counts() const { return {}; }
  // UNIMPLEMENTED: the device runs work on the calling thread.
  virtual StatusOr<std::unique_ptr<SideStream>> MakeSideStream();

  int64_t bytes_in_use() const { return in_use_.load(); }
  int64_t bytes_peak() const { return peak_.load(); }

 protected:
  void Account(int64_t delta);

 private:
  std::atomic<int64_t> in_use_{0}, peak_{0};
};

class CpuDevice final : public Device {
 public:
  Place place() const override { return {}; }
  StatusOr<Buffer> Allocate(size_t bytes) override;
  Status CopyFromHost(void* device_dst, const void* host_src, size_t bytes) override;
  Status CopyToHost(void* host_dst, const void* device_src, size_t bytes) override;
  Status Synchronize() override { return OkStatus(); }
};

}  // namespace tandem
