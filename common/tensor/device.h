// The interface of a device, which holds tensors and copies bytes to and from host memory. This
// file also declares the CPU device; the CUDA module has its own device (device_cuda.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/base/status.h"
#include "common/tensor/types.h"

namespace tandem {

// The memory of one allocation. The memory is freed when the last reference is destroyed, on any
// thread. The device must outlive the memory.
using Buffer = std::shared_ptr<std::byte>;

// The sizes in which a device requests memory from its driver. If all fields are 0, every
// allocation is a driver call.
struct DeviceMemoryOptions {
  double fraction = 0;  // size of a chunk without its own setting, as a fraction of the free memory
  size_t first_bytes = 0;  // size of the first chunk in bytes; 0: use `fraction`
  size_t more_bytes = 0;   // size of each later chunk in bytes; 0: use `fraction`
  size_t limit_bytes = 0;  // maximum size of all chunks together in bytes; 0: no limit
};

struct DeviceMemoryCounts {
  int64_t driver_calls = 0;  // number of driver calls that requested memory
  size_t driver_bytes = 0;   // memory from the driver that was not returned yet, in bytes
  size_t used_bytes = 0;     // the part of driver_bytes that is in use, in bytes
};

// A second stream of device work, which runs in parallel to the compute stream. Communication uses
// this stream. Thread-safe. The device must outlive the stream.
class SideStream {
 public:
  // A position in the compute stream (an event).
  using Mark = std::shared_ptr<void>;

  virtual ~SideStream() = default;
  // Returns the native stream, a cudaStream_t, for calls of libraries.
  virtual void* handle() const = 0;
  // Selects the device for the calling thread. Libraries require this before a call.
  virtual Status Enter() = 0;
  // Returns an event that completes after all work that is in the compute stream now.
  virtual StatusOr<Mark> RecordComputeEvent() = 0;
  // Makes later work of this stream wait for the event `mark` (cudaStreamWaitEvent).
  virtual Status WaitOn(const Mark& mark) = 0;
  // Returns whether all work of this stream has ended. UNAVAILABLE: the device has failed.
  virtual StatusOr<bool> Idle() = 0;
};

// A device that holds tensors. Thread-safe.
class Device {
 public:
  // Alignment of every allocation and every arena offset, in bytes.
  static constexpr size_t kAlignment = 64;

  virtual ~Device() = default;
  virtual Place place() const = 0;
  // Allocates `bytes` bytes of device memory, not initialised and aligned to kAlignment. 0 bytes
  // give a valid, empty buffer. RESOURCE_EXHAUSTED: out of memory.
  virtual StatusOr<Buffer> Allocate(size_t bytes) = 0;
  // Copy `bytes` bytes between host memory and this device. After CopyFromHost returns, `host_src`
  // may change, and later work of the compute stream sees the data. CopyToHost blocks until
  // `host_dst` has the data.
  virtual Status CopyFromHost(void* device_dst, const void* host_src, size_t bytes) = 0;
  virtual Status CopyToHost(void* host_dst, const void* device_src, size_t bytes) = 0;
  // Blocks until all work that was started on the device has ended.
  virtual Status Synchronize() = 0;
  // The native compute stream; nullptr: the device has none.
  virtual void* stream() const { return nullptr; }
  // Returns the amounts of memory from the device's driver; all are 0 if the device has no driver.
  virtual DeviceMemoryCounts memory_counts() const { return {}; }
  // Creates a stream for work in parallel to the compute stream. UNIMPLEMENTED: the device runs all
  // work on the calling thread.
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
