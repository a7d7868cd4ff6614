// Fits the cost model to this machine with short measurements among ranks on it.
#pragma once

#include <cstddef>

#include "collective/cost/cost_model.h"
#include "collective/host/local_world.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::collective {

// Probes use buffers of at most this size, and only sizes that the caller needs.
inline constexpr size_t kProbeBytesMax = size_t{16} << 20;

// Measures an in-place f32 allreduce (sum) of `bytes` (a multiple of 4). The time of one call is
// that of the slowest rank. Returns the median in seconds over as many calls as fit into `budget`,
// but at least three. Every rank must call it; all get the same result.
StatusOr<double> TimeAllReduce(Communicator& own, size_t bytes, Duration budget);
StatusOr<double> TimeAllReduce(LocalWorld& world, size_t bytes, Duration budget);

// Measures TCP between two ranks. On loopback the wire has only a latency. `cores` is this
// machine's. If `bytes_max` exceeds 1 MB, it also measures some buffers of 16 MB, beyond the
// budget.
StatusOr<CostModel> ProbeTcp(Duration budget, size_t bytes_max = 0);

// Seconds per received byte to add two buffers that fit into the cache.
double ProbeAdding();

// The cost of collectives in shared memory, which have no schedules. Lines through measurements
// with exactly this number of ranks. Up to the size that is posted with the header, the cost is
// constant.
struct SharedMemoryCost {
  size_t posted_max = 0;  // bytes
  double posted = 0;      // for at most posted_max bytes
  PiecewiseLinearCost line;

  double Seconds(size_t bytes) const { return bytes <= posted_max ? posted : line.Seconds(bytes); }
};
// Measures up to kProbeBytesMax, beyond the budget, if `bytes_max` exceeds 1 MB. REQUIRES that each
// rank can allocate this size.
StatusOr<SharedMemoryCost> ProbeSharedMemory(LocalWorld& world, Duration budget,
                                             size_t bytes_max = 0);

}  // namespace tandem::collective
