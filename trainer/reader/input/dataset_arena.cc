#include "trainer/reader/input/dataset_arena.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "common/os/huge_pages.h"

namespace tandem::reader {
namespace {

constexpr size_t kBlockAlignment = 4096;
constexpr size_t kBlockMin = kHugePage, kBlockMax = size_t{64} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void DatasetArena::Free::operator()(std::byte* block) const { std::free(block); }

void* DatasetArena::do_allocate(size_t bytes, size_t alignment) {
  MutexLock lock(mu_);
  size_t at = RoundUp(used_, alignment);
  if (blocks_.empty() || at + bytes > block_bytes_) {
    const size_t wanted = std::clamp(2 * block_bytes_, kBlockMin, kBlockMax);
    block_bytes_ = RoundUp(std::max(bytes, wanted), kHugePage);
    // The first block is ordinary memory, because small data do not need huge pages.
    void* const block = blocks_.empty() ? std::aligned_alloc(kBlockAlignment, block_bytes_)
                                        : AllocatePages(block_bytes_, kBlockAlignment);
    if (block == nullptr) throw std::bad_alloc();
    blocks_.emplace_back(static_cast<std::byte*>(block));
    at = 0;
  }
  used_ = at + bytes;
  return blocks_.back().get() + at;
}

}  // namespace tandem::reader
