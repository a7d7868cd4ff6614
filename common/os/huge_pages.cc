#include "common/os/huge_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "common/base/require.h"

namespace tandem {

void* AllocatePages(size_t bytes, size_t alignment) {
  TD_REQUIRE(std::has_single_bit(alignment));
  const bool huge = bytes >= kHugePage;
  const size_t unit = huge ? std::max(alignment, kHugePage) : alignment;
  void* memory = nullptr;
  if (posix_memalign(&memory, unit, std::max(bytes, size_t{1})) != 0) return nullptr;
  if (huge) (void)madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

}  // namespace tandem
