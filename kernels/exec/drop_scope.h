// Releases the physical memory of temporaries between runs. The addresses in the plan's arena stay
// valid. A released temporary needs no value between runs, because the next run writes the
// temporary before it reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem::exec {

struct DropOptions {
  int every_runs = 0;  // N: release temporaries after every N runs; 0: never
  // If all temporaries together have more bytes than this, they are released after each run; below
  // 0: never.
  int64_t above_bytes = -1;
};

// Returns the whole pages of `arena` that contain no byte of `kept`. The ranges of `kept` may be in
// any order and may overlap.
std::vector<std::span<std::byte>> WholePages(std::span<std::byte> arena,
                                             std::vector<std::span<std::byte>> kept);

// Returns pages of host memory to the system. The pages read as zeros at the next access. REQUIRES:
// `pages` consists of whole pages of private memory.
void GiveBack(std::span<std::byte> pages);

// Returns how many bytes of `pages` are in physical memory. REQUIRES: `pages` are whole pages.
size_t ResidentBytes(std::span<std::byte> pages);

}  // namespace tandem::exec
