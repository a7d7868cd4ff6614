#include "kernels/exec/drop_scope.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::exec {
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
    // The free range begins at `from`, rounded up to a whole page. It ends at the next kept range,
    // whose start is rounded down to a whole page.
    const auto at = reinterpret_cast<uintptr_t>(from);
    std::byte* const begin = from + (page - at % page) % page;
    std::byte* const end = piece.data() - reinterpret_cast<uintptr_t>(piece.data()) % page;
    TD_REQUIRE(piece.data() >= arena.data());
    TD_REQUIRE(piece.data() + piece.size() <= arena.data() + arena.size());
    if (begin < end) pieces.emplace_back(begin, end);
    from = std::max(from, piece.data() + piece.size());
  }
  return pieces;
}

void GiveBack(std::span<std::byte> pages) {
  TD_REQUIRE(reinterpret_cast<uintptr_t>(pages.data()) % PageBytes() == 0);
  TD_REQUIRE(pages.size() % PageBytes() == 0);
  PCHECK(madvise(pages.data(), pages.size(), MADV_DONTNEED) == 0);
}

size_t ResidentBytes(std::span<std::byte> pages) {
  TD_REQUIRE(reinterpret_cast<uintptr_t>(pages.data()) % PageBytes() == 0);
  const size_t page = PageBytes();
  std::vector<unsigned char> resident((pages.size() + page - 1) / page);
  PCHECK(mincore(pages.data(), pages.size(), resident.data()) == 0);
  return page * static_cast<size_t>(std::count_if(resident.begin(), resident.end(),
                                                  [](unsigned char r) { return (r & 1) != 0; }));
}

}  // namespace tandem::exec
