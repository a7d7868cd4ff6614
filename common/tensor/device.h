// A device: where tensors live and how bytes get there. The CPU's is here; the CUDA module brings
// its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/base/status.h"
#include "common/tensor/types.h"

namespace tandem {

// Memory of one allocation; freed with the last reference, which may be held by any thread. The
// device must outlive it.
using Buffer = std::shared_ptr<std::byte>;

// What a device takes from its driver. Without a fraction and sizes every allocation asks it.
struct DeviceMemoryOptions {
  double fraction = 0;     // of what is free, for a chunk whose size is not given
  size_t first_bytes = 0;  // of the first chunk
  size_t more_bytes = 0;   // of each further one
  size_t limit_bytes = 0;  // of all together; 0: none
};

struct DeviceMemoryCounts {
  int64_t driver_calls = 0;  // that asked for memory
  size_t driver_bytes = 0;   // what they gave, and have
  size_t used_bytes = 0;     // of them
};

// Work on a device beside its compute stream: what communication runs on. Thread-safe. Its device
// must outlive it.
class SideStream {
 public:
  // A place in the compute stream.
  using Mark = std::shared_ptr<void>;

  virtual ~SideStream() = default;
  // For libraries that put work on it: a cudaStream_t.
  virtual void* handle() const = 0;
  // Makes the device the calling thread's, as libraries want it before they are called.
  virtual Status Enter() = 0;
  // Behind everything that the compute stream has been given until now.
  virtual StatusOr<Mark> RecordComputeEvent() = 0;
  // What this stream is given from now on begins behind `mark`.
  virtual Status WaitOn(const Mark& mark) = 0;
  // Whether everything that it was given has ended. UNAVAILABLE when the device has failed.
  virtual StatusOr<bool> Idle() = 0;
};

// Thread-safe.
class Device {
 public:
  static constexpr size_t kAlignment = 64;  // bytes; every allocation and every arena offset

  virtual ~Device() = default;
  virtual Place place() const = 0;
  // `bytes` >= 0 (0 gives a valid, empty buffer), aligned to kAlignment, not initialised.
  // RESOURCE_EXHAUSTED when there is no memory.
  virtual StatusOr<Buffer> Allocate(size_t bytes) = 0;
  // Blocking copies between this device and host memory.
  virtual Status CopyFromHost(void* device_dst, const void* host_src, size_t bytes) = 0;
  virtual Status CopyToHost(void* host_dst, const void* device_src, size_t bytes) = 0;
  // Waits for everything started on the device.
  virtual Status Synchronize() = 0;
  virtual void* stream() const { return nullptr; }  // the compute stream, where there is one
  // What it took from a driver; nothing where there is none.
  virtual DeviceMemoryCounts memory_counts() const { return {}; }
  // UNIMPLEMENTED where work is done by the thread that asks for it.
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
