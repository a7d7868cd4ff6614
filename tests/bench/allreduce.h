// Message sizes and numbers of calls of the allreduce benchmarks. Tandem and the peers (Open MPI,
// Gloo) use the same values. The header includes no other file of Tandem, because the program of
// the peers is built without Tandem.
#pragma once

#include <algorithm>
#include <cstddef>

namespace tandem::bench {

constexpr size_t kSizes[] = {4, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

// Returns the number of calls for one size. At 2 GB/s and 20 us per call, all sizes together last
// about `seconds`. Half of that time is for rewriting the inputs.
constexpr size_t CallsOf(size_t bytes, double seconds) {
  const double share = seconds / static_cast<double>(std::size(kSizes));
  const double each = 40e-6 + 2 * static_cast<double>(bytes) / 2e9;
  return std::max<size_t>(7, static_cast<size_t>(share / each));
}

}  // namespace tandem::bench
