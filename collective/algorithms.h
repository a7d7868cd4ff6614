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

// The same for a reduce-scatter of `count` elements, a multiple of `size`, that gives each rank the
// bits of its part of an allreduce by `algorithm`. Where that adds as the tree of ring.h
// (AddsTree), the table brings everybody's share of the own part, rank r's as part r, to be added
// up then.
Schedule ReduceScatterSchedule(AllReduceAlgorithm algorithm, int rank, int size, int group,
                               size_t count, size_t element_bytes);
bool AddsTree(AllReduceAlgorithm algorithm);

}  // namespace tandem
