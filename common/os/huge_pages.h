// Allocates large memory in huge pages. At the first touch of a page the kernel fills it with
// zeros. For 64 MiB this took 32 ms with pages of 4 KiB and 4 ms with pages of 2 MiB
// (docs/project/benchmarks/readers.md).
#pragma once

#include <cstddef>

namespace tandem {

constexpr size_t kHugePage = size_t{2} << 20;

// Allocates memory that begins at a multiple of `alignment` (a power of two); free it with
// std::free. nullptr: out of memory. For kHugePage bytes or more it begins at a multiple of
// kHugePage and requests huge pages. Normal pages are used if the kernel has none. Thread-safe.
void* AllocatePages(size_t bytes, size_t alignment);

}  // namespace tandem
