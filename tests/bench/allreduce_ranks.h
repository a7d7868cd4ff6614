// Times allreduces among processes. Each process rewrites its whole input before each call.
#pragma once

#include <functional>
#include <vector>

#include "collective/communicator.h"
#include "common/base/status.h"

namespace tandem::bench {

// Points to the times of one rank: one time per call, in microseconds.
using Times = double*;

// Makes `calls` allreduces (f32 sum, in place) of `bytes` bytes, each after a barrier. `data` must
// hold at least `bytes` bytes.
Status MeasureAllReduce(collective::Communicator& comm, float* data, size_t bytes, size_t calls,
                        Times times);

// Forks one process per rank. Each process calls `body` and writes up to `slots` times to `own`.
// Returns all times of rank 0, then all times of rank 1, and so on. Calls `meanwhile` in this
// process after all ranks are forked. INTERNAL: a rank failed.
StatusOr<std::vector<double>> ForkRanks(int ranks, size_t slots,
                                        const std::function<Status(int rank, Times own)>& body,
                                        const std::function<void()>& meanwhile = nullptr);

// Returns the median over the calls [at, at + calls). The time of a call is the time of the slowest
// rank.
double MedianOfSlowest(const std::vector<double>& times, int ranks, size_t at, size_t calls);

}  // namespace tandem::bench
