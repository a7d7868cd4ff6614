// Copies whole tensors on several threads.
#pragma once

#include <cstddef>
#include <cstring>

#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {

// Copies `bytes` bytes on up to `threads` threads. Does nothing if `to` equals `from`.
inline void ParallelCopy(int threads, void* to, const void* from, size_t bytes) {
  if (to == from) return;
  const auto n = static_cast<int64_t>(bytes);
  ParallelFor(PartsFor(threads, n / 8), n, [&](int, int64_t begin, int64_t end) {
    if (end > begin) {
      std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                  static_cast<size_t>(end - begin));
    }
  });
}

}  // namespace tandem::ops
