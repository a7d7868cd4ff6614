#include "kernels/exec/drop_scope.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/check.h"

namespace tandem {
namespace {

uintptr_t PageBytes() { return static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

std::vector<std::span<std::byte>> WholePages(std::span<std::byte> arena,
                                             std::vector<std::span<std::byte>> kept) {
  std::sort(kept.begin(), kept.end(),
            [](const auto& a, const auto& b) { return a.data() < b.data(); });
  kept.push_back({arena.data() + arena.size(), 0});
  std::vector<std::span<std::byte>> pieces;
  const uintptr_t page = PageBytes();
  std::byte* from = arena.data();
  for (const auto& piece : kept) {
    // Rounds `from` up and the start of the kept piece down to whole pages.
    const auto at = reinterpret_cast<uintptr_t>(from);
    std::byte* const begin = from + (page - at % page) % page;
    std::byte* const end = piece.data() - reinterpret_cast<uintptr_t>(piece.data()) % page;
    if (begin < end) pieces.emplace_back(begin, end);
    from = std::max(from, piece.data() + piece.size());
  }
  return pieces;
}

void GiveBack(std::span<std::byte> pages) {
  PCHECK(madvise(pages.data(), pages.size(), MADV_DONTNEED) == 0);
}

size_t ResidentBytes(std::span<std::byte> pages) {
  const size_t page = PageBytes();
  std::vector<unsigned char> resident((pages.size() + page - 1) / page);
  PCHECK(mincore(pages.data(), pages.size(), resident.data()) == 0);
  return page * static_cast<size_t>(std::count_if(resident.begin(), resident.end(),
                                                  [](unsigned char r) { return (r & 1) != 0; }));
}

}  // namespace tandem
