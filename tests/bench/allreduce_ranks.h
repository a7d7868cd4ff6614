// Times allreduces among processes, each of which rewrites its whole input before each call.
#pragma once

#include <functional>
#include <vector>

#include "collective/communicator.h"
#include "common/base/status.h"

namespace tandem::bench {

// Microseconds of each call of one rank.
using Times = double*;

// `calls` allreduces (f32 sum, in place) of `bytes`, each after a barrier; `data` is large enough.
Status MeasureAllReduce(collective::Communicator& comm, float* data, size_t bytes, size_t calls,
                        Times times);

// Forks one process per rank, each of which writes up to `slots` times. Returns the times of rank
// 0, then of rank 1, ... INTERNAL: a rank failed. `meanwhile` is called in this process once all
// are forked.
StatusOr<std::vector<double>> ForkRanks(int ranks, size_t slots,
                                        const std::function<Status(int rank, Times own)>& body,
                                        const std::function<void()>& meanwhile = nullptr);

// Over the calls [at, at + calls) of each rank: the median of the slowest rank's time.
double MedianOfSlowest(const std::vector<double>& times, int ranks, size_t at, size_t calls);

}  // namespace tandem::bench
