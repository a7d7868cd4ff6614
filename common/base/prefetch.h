// Prefetches a cache line into the processor's cache.
#pragma once

namespace tandem {

// Prefetches the cache line at `address`. GCC 12 removes calls of a function whose only statement
// is __builtin_prefetch, because it assumes that the function has no effect. The empty asm
// statement prevents the removal.
inline void PrefetchLine(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");
}

}  // namespace tandem
