// Releases the memory of temporaries between runs. A plan keeps its arena, but temporaries have no
// value until the next run writes them. Their pages can therefore go back to the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

struct DropOptions {
  int every_runs = 0;        // release after every N runs; 0: never
  int64_t above_bytes = -1;  // release after each run if they exceed this; below 0: no limit
};

// Returns the parts of `arena` outside `kept` that are whole pages. `kept` may be in any order and
// may overlap.
std::vector<std::span<std::byte>> WholePages(std::span<std::byte> arena,
                                             std::vector<std::span<std::byte>> kept);

// Returns the pages of host memory to the system. They read as zeros at the next access. REQUIRES:
// whole pages of private memory.
void GiveBack(std::span<std::byte> pages);

// Returns how many bytes of `pages` are resident now. REQUIRES: whole pages.
size_t ResidentBytes(std::span<std::byte> pages);

}  // namespace tandem
