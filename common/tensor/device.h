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
