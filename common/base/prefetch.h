// Prefetches a cache line into the processor's cache.
#pragma once

namespace tandem {

// Prefetches the cache line at `address`. GCC 12 considers a function without effect if its only
// statement is __builtin_prefetch, and removes the calls of the function. The empty asm statement
// prevents the removal.
inline void PrefetchLine(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");
}

}  // namespace tandem
