// Prefetches a cache line into the processor's cache.
#pragma once

namespace tandem {

// Prefetches the cache line at `address`. GCC 12 removes calls of a function whose only statement
// is __builtin_prefetch, which seems to have no effect. The empty asm statement prevents this.
inline void PrefetchLine(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");
}

}  // namespace tandem
