// Memory for much data. At the first touch of a page the kernel fills it with zeros: for 64 MiB
// that took 32 ms in pages of 4 KiB and 4 ms in pages of 2 MiB
// (docs/project/benchmarks/readers.md).
#pragma once

#include <cstddef>

namespace tandem {

constexpr size_t kHugePage = size_t{2} << 20;

// Begins at a multiple of `alignment` (a power of two) and is freed by std::free; nullptr: there is
// none. From kHugePage on it begins at a multiple of that, and the kernel is asked for huge pages;
// where it has none, nothing is lost. Thread-safe.
void* AllocatePages(size_t bytes, size_t alignment);

}  // namespace tandem
