// Determines the constants of the cost model for this machine, by short measurements among ranks on
// this machine.
#pragma once

#include <cstddef>

#include "collective/cost/cost_model.h"
#include "collective/host/local_world.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::collective {

// Maximum size of a buffer in a measurement, in bytes. The measurements use only sizes that the
// caller needs.
inline constexpr size_t kProbeBytesMax = size_t{16} << 20;

// Measures an in-place f32 allreduce (sum) of `bytes` (a multiple of 4). The time of one call is
// that of the slowest rank. The function makes as many calls as fit into `budget`, but at least
// three, and returns the median in seconds. Every rank must call the function, and all ranks get
// the same result.
StatusOr<double> TimeAllReduce(Communicator& own, size_t bytes, Duration budget);
StatusOr<double> TimeAllReduce(LocalWorld& world, size_t bytes, Duration budget);

// Measures TCP between two ranks on loopback. In the result the wire has only a latency, and
// `cores` is the number of this machine's cores. If `bytes_max` exceeds 1 MB, the function also
// measures some buffers of 16 MB, which takes longer than `budget`.
StatusOr<CostModel> ProbeTcp(Duration budget, size_t bytes_max = 0);

// Measures the addition of two buffers that fit into the cache. Result: seconds per received byte.
double ProbeAdding();

// The time of collectives in shared memory, which have no schedules. The time is interpolated
// between measurements, and is valid only for the measured number of ranks. The time is constant up
// to posted_max bytes, because a rank then writes its data together with the header of the call.
struct SharedMemoryCost {
  size_t posted_max = 0;  // maximum size of posted data, in bytes
  double posted = 0;      // time in seconds of a call of at most posted_max bytes
  PiecewiseLinearCost line;

  double Seconds(size_t bytes) const { return bytes <= posted_max ? posted : line.Seconds(bytes); }
};
// Measures collectives in shared memory. If `bytes_max` exceeds 1 MB, the function measures sizes
// up to kProbeBytesMax, which takes longer than `budget`. REQUIRES: each rank can allocate a buffer
// of the largest size.
StatusOr<SharedMemoryCost> ProbeSharedMemory(LocalWorld& world, Duration budget,
                                             size_t bytes_max = 0);

}  // namespace tandem::collective
