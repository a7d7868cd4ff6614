// Splits a kernel's work among threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "common/base/require.h"

namespace tandem::ops {

// Calls work(part, begin, end) for `parts` nearly equal parts of [0, n), each on its own thread.
// The bounds of the parts depend only on `parts` and n. `work` is also called for empty parts.
template <typename Work>
void ParallelFor(int parts, int64_t n, const Work& work) {
  TD_REQUIRE(n >= 0);
  if (parts <= 1) {
    work(0, int64_t{0}, n);
    return;
  }
#pragma omp parallel for num_threads(parts) schedule(static, 1)
  for (int part = 0; part < parts; ++part) {
    work(part, n * part / parts, n * (part + 1) / parts);
  }
}

// Calls work(thread, i) for each i of [0, n), with thread < `threads`. The next free thread gets
// the next i. Suitable if the result depends only on i and some CPUs may be slower than others.
template <typename Work>
void ParallelEach(int threads, int64_t n, const Work& work) {
  TD_REQUIRE(n >= 0);
  if (threads <= 1 || n <= 1) {
    for (int64_t i = 0; i < n; ++i) work(0, i);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < n; ++i) work(omp_get_thread_num(), i);
}

// Returns the number of threads, at most `threads`, for work that costs `cost` element operations.
// Starting and joining threads takes a few microseconds, so each thread should have some tens of
// microseconds of work.
inline int PartsFor(int threads, int64_t cost) {
  TD_REQUIRE(cost >= 0);
  constexpr int64_t kCostMin = 32 * 1024;
  return static_cast<int>(std::clamp<int64_t>(cost / kCostMin, 1, std::max(threads, 1)));
}

}  // namespace tandem::ops
