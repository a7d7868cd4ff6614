// A device's memory as chunks that its driver gives and blocks that are cut from them. Asking a
// driver is slow and stops the device; a block costs a look into two tables of the host.
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

// Thread-safe.
class DevicePool {
 public:
  static constexpr size_t kAlignment = 256;  // bytes, as of cudaMalloc; chunks have it at least

  struct Driver {
    std::function<std::byte*(size_t bytes)> allocate;  // nullptr: there is not so much
    std::function<void(std::byte*)> free;
    std::function<size_t()> free_bytes;
  };

  DevicePool(std::string device, Driver driver, const DeviceMemoryOptions& options)
      : device_(std::move(device)), driver_(std::move(driver)), options_(options) {}
  ~DevicePool();  // gives everything back: nothing of it may be in use
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  // The smallest free block that is large enough, or a new chunk. `bytes` of 0 gives a block too.
  // RESOURCE_EXHAUSTED with what is in use, and where the rest is.
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
  Blocks blocks_ TD_GUARDED_BY(mu_);                                 // by address
  std::set<std::pair<size_t, std::byte*>> free_ TD_GUARDED_BY(mu_);  // by size
  DeviceMemoryCounts counts_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem
