// Memory of temporaries between runs: a plan keeps its arena, but what lies in it has no value
// until the next run writes it, so that its pages can go back to the system meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

struct DropOptions {
  int every_runs = 0;        // after so many runs; 0: never
  int64_t above_bytes = -1;  // after each run when they hold more than this; below 0: no limit
};

// Pieces of `arena` outside `kept` (in any order, overlapping or not) that are whole pages.
std::vector<std::span<std::byte>> WholePages(std::span<std::byte> arena,
                                             std::vector<std::span<std::byte>> kept);

// Gives the pages of host memory back; they are zero when they are touched next. REQUIRES: whole
// pages of private memory.
void GiveBack(std::span<std::byte> pages);

// How much of it the process has pages for at present. REQUIRES: whole pages.
size_t ResidentBytes(std::span<std::byte> pages);

}  // namespace tandem
