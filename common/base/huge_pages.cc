#include "common/base/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

namespace tandem {

void* AllocatePages(size_t bytes, size_t alignment) {
  const bool huge = bytes >= kHugePage;
  const size_t unit = huge ? std::max(alignment, kHugePage) : alignment;
  // aligned_alloc wants a multiple of the alignment, which is no reason to take more than asked
  // for.
  const size_t rounded = std::max((bytes + alignment - 1) / alignment, size_t{1}) * alignment;
  void* memory = nullptr;
  if (posix_memalign(&memory, unit, rounded) != 0) return nullptr;
  if (huge) (void)madvise(memory, rounded / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

}  // namespace tandem
