// Fits the cost model to this machine: short measurements among ranks on it.
#pragma once

#include <cstddef>

#include "collective/cost/cost_model.h"
#include "collective/host/local_world.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

// What is measured is in buffers of up to so many bytes, as far as there is a use for it.
inline constexpr size_t kProbeBytesMax = size_t{16} << 20;

// Seconds of an allreduce (f32 sum, in place) of `bytes`, a multiple of 4: of each call the slowest
// rank's, of these the median over as many calls as `budget` allows, at least three. Every rank
// calls it, and gets the same.
StatusOr<double> TimeAllReduce(Communicator& own, size_t bytes, Duration budget);
StatusOr<double> TimeAllReduce(LocalWorld& world, size_t bytes, Duration budget);

// Over TCP, from two ranks. With loopback the wire has a latency alone. `cores` is this machine's.
// For buffers of more than 1 MB (`bytes_max`) some of 16 MB are measured too, over the budget.
StatusOr<CostModel> ProbeTcp(Duration budget, size_t bytes_max = 0);

// Of adding, in seconds per byte received: two buffers that the cache holds.
double ProbeAdding();

// Shared memory has no tables; the ranks work on one another's buffers. So lines through
// measurements, for the very number of ranks; below the size that is posted it is always the same.
struct SharedMemoryCost {
  size_t posted_max = 0;  // bytes
  double posted = 0;      // seconds up to there
  PiecewiseLinearCost line;

  double Seconds(size_t bytes) const { return bytes <= posted_max ? posted : line.Seconds(bytes); }
};
// Measured up to kProbeBytesMax where `bytes_max` is more than 1 MB, over the budget. A rank can
// allocate as much.
StatusOr<SharedMemoryCost> ProbeSharedMemory(LocalWorld& world, Duration budget,
                                             size_t bytes_max = 0);

}  // namespace tandem
