#include "trainer/reader/kept_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace tandem {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kBlockMin = kHugePage, kBlockMax = size_t{64} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void KeptMemory::Free::operator()(std::byte* block) const { std::free(block); }

void* KeptMemory::do_allocate(size_t bytes, size_t alignment) {
  MutexLock lock(mu_);
  size_t at = RoundUp(used_, alignment);
  if (blocks_.empty() || at + bytes > block_bytes_) {
    const size_t wanted = std::clamp(2 * block_bytes_, kBlockMin, kBlockMax);
    block_bytes_ = RoundUp(std::max(bytes, wanted), kHugePage);
    blocks_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kHugePage, block_bytes_)));
    if (blocks_.back() == nullptr) throw std::bad_alloc();
    // Small data do not need them. Where the system has none, nothing is lost.
    if (blocks_.size() > 1) ::madvise(blocks_.back().get(), block_bytes_, MADV_HUGEPAGE);
    at = 0;
  }
  used_ = at + bytes;
  return blocks_.back().get() + at;
}

}  // namespace tandem
