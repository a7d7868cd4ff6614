// Asks the processor for a line of the cache ahead of its use.
#pragma once

namespace tandem {

// GCC 12 holds a function that does nothing but __builtin_prefetch for one without effects, and
// leaves calls of it out before it would inline them; the empty statement is an effect.
inline void PrefetchLine(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");
}

}  // namespace tandem
