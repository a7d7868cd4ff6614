// Allocates large memory in huge pages. The kernel fills each page with zeros at the first access
// to the page. For 64 MiB, this took 32 ms with pages of 4 KiB and 4 ms with pages of 2 MiB
// (docs/project/benchmarks/readers.md).
#pragma once

#include <cstddef>

namespace tandem {

constexpr size_t kHugePage = size_t{2} << 20;

// Allocates `bytes` bytes of memory. The address is a multiple of `alignment`, a power of two. The
// caller frees the memory with std::free. Returns nullptr if there is no memory. If `bytes` >=
// kHugePage, the address is a multiple of kHugePage, and the function requests huge pages from the
// kernel. Without free huge pages the kernel uses normal pages. Thread-safe.
void* AllocatePages(size_t bytes, size_t alignment);

}  // namespace tandem
