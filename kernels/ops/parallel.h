// Cutting a kernel's work over threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace tandem {

// Calls work(part, begin, end) for `parts` nearly equal parts of [0, n), on as many threads. Which
// part holds an index depends on `parts` and n alone. Empty parts are called too.
template <typename Work>
void ParallelFor(int parts, int64_t n, const Work& work) {
  if (parts <= 1) {
    work(0, int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int part = 0; part < parts; ++part) {
    work(part, n * part / parts, n * (part + 1) / parts);
  }
}

// How many threads are worth starting for `cost` element operations: a fork and a join cost a few
// microseconds, so each thread should have some tens of microseconds to do.
inline int PartsFor(int threads, int64_t cost) {
  constexpr int64_t kCostMin = 32 * 1024;
  return static_cast<int>(std::clamp<int64_t>(cost / kCostMin, 1, std::max(threads, 1)));
}

}  // namespace tandem
