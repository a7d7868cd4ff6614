// Fits the cost model to this machine: short measurements among ranks on it.
#pragma once

#include <cstddef>

#include "collective/cost_model.h"
#include "collective/local_world.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

// Seconds of an allreduce (f32 sum, in place) of `bytes`, a multiple of 4: of each call the slowest
// rank's, of these the median over as many calls as `budget` allows, at least three.
StatusOr<double> TimeAllReduce(LocalWorld& world, size_t bytes, Duration budget);

// Over TCP, from two ranks. With loopback the wire has a latency alone. `cores` is this machine's.
StatusOr<CostModel> ProbeTcp(Duration budget);

// Of adding, in seconds per byte received: two buffers that the cache holds.
double ProbeAdding();

// Shared memory has no tables; the ranks work on one another's buffers. So a line through two
// measurements, for the very number of ranks, and another one below the size that is posted.
struct SharedMemoryCost {
  size_t posted_max = 0;  // bytes
  double posted = 0;      // seconds up to there
  double start = 0, byte = 0;

  double Seconds(size_t bytes) const {
    return bytes <= posted_max ? posted : start + byte * static_cast<double>(bytes);
  }
};
StatusOr<SharedMemoryCost> ProbeSharedMemory(LocalWorld& world, Duration budget);

}  // namespace tandem
