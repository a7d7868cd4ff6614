// A memory pool of a device. It divides large chunks of driver memory into blocks. A driver call is
// slow and stops the device. The allocation of a block needs only two table lookups on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/tensor/device.h"

namespace tandem {

// Allocates blocks of device memory. Thread-safe.
class DevicePool {
 public:
  // Alignment and minimum size of a block in bytes. cudaMalloc has the same alignment.
  static constexpr size_t kAlignment = 256;

  struct Driver {
    // A function that requests memory from the driver. Returns nullptr if there is not enough
    // memory.
    std::function<std::byte*(size_t bytes)> allocate;
    std::function<void(std::byte*)> free;
    std::function<size_t()> free_bytes;
  };

  DevicePool(std::string device, Driver driver, const DeviceMemoryOptions& options)
      : device_(std::move(device)), driver_(std::move(driver)), options_(options) {}
  ~DevicePool();  // frees all chunks; REQUIRES: no block is in use
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  // Returns the smallest free block that is large enough, or a block in a new chunk. 0 bytes give a
  // block too. RESOURCE_EXHAUSTED: out of memory; the message has the used and the free bytes.
  StatusOr<std::byte*> Take(size_t bytes) TD_EXCLUDES(mu_);
  void Give(std::byte* memory) TD_EXCLUDES(mu_);
  DeviceMemoryCounts counts() const TD_EXCLUDES(mu_);

 private:
  struct Block {
    size_t bytes;
    bool free;
    bool begins_chunk;
  };
  using Blocks = std::map<std::byte*, Block>;

  bool pools() const {
    return options_.fraction > 0 || options_.first_bytes > 0 || options_.more_bytes > 0;
  }
  size_t ChunkBytes() TD_REQUIRES(mu_);
  Status AddChunk(size_t bytes) TD_REQUIRES(mu_);
  bool AskDriver(size_t bytes) TD_REQUIRES(mu_);
  Blocks::iterator Join(Blocks::iterator block) TD_REQUIRES(mu_);

  const std::string device_;
  const Driver driver_;
  const DeviceMemoryOptions options_;
  mutable Mutex mu_;
  Blocks blocks_ TD_GUARDED_BY(mu_);  // all blocks, ordered by address
  std::set<std::pair<size_t, std::byte*>> free_ TD_GUARDED_BY(mu_);  // free blocks, ordered by size
  DeviceMemoryCounts counts_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem
