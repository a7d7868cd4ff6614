// Memory for data that a reader keeps until its destruction. Internal to the readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <vector>

#include "common/base/mutex.h"

namespace tandem::reader {

// Allocates memory in blocks of growing size, which the system may back with huge pages. A huge
// page needs one page fault for 2 MiB instead of one for 4 KiB. Frees memory only in its
// destructor. Thread-safe.
class DatasetArena final : public std::pmr::memory_resource {
 public:
  // Returns a copy of `values` in this arena. Clears `values`, so that the caller can use its
  // memory again.
  template <typename T>
  std::pmr::vector<T> Keep(std::vector<T>& values) {
    std::pmr::vector<T> kept(values.begin(), values.end(), this);
    values.clear();
    return kept;
  }

 private:
  struct Free {
    void operator()(std::byte* block) const;
  };

  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void*, size_t, size_t) override {}
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  Mutex mu_;
  std::vector<std::unique_ptr<std::byte, Free>> blocks_ TD_GUARDED_BY(mu_);
  size_t block_bytes_ TD_GUARDED_BY(mu_) = 0;  // size of the last block in bytes
  size_t used_ TD_GUARDED_BY(mu_) = 0;         // bytes used of the last block
};

}  // namespace tandem::reader
