// Prefetches a cache line.
#pragma once

namespace tandem {

// GCC 12 considers a function that only calls __builtin_prefetch as free of effects, and removes
// its calls before inlining. The empty asm statement is an effect.
inline void PrefetchLine(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");
}

}  // namespace tandem
