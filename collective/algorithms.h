// The algorithms of an allreduce: what the communicator chooses from, and what a cost model
// compares. Pure functions.
#pragma once

#include "collective/allreduce_algorithm.h"
#include "collective/host_communicator.h"
#include "collective/schedule.h"

namespace tandem {

// Whether it is one for `size` ranks in groups of `group` (1: no groups).
bool Serves(AllReduceAlgorithm algorithm, int size, int group);

// What a communicator of `size` ranks without shared memory does with so many bytes.
AllReduceAlgorithm ChooseAllReduce(const HostCommunicatorConfig& config, int size, size_t bytes);
// `config` changed so that it chooses `algorithm`. REQUIRES: Serves(algorithm, size, group).
HostCommunicatorConfig Always(AllReduceAlgorithm algorithm, int group,
                              HostCommunicatorConfig config = {});

// The table of one rank. kDirect: over a buffer of size * bytes, in which part r is rank r's, and
// which every rank then adds up by itself; else over a buffer of `count` elements. REQUIRES:
// Serves(algorithm, size, group).
Schedule AllReduceSchedule(AllReduceAlgorithm algorithm, int rank, int size, int group,
                           size_t count, size_t element_bytes);

}  // namespace tandem
