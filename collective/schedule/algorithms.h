// The allreduce algorithms among which the communicator chooses and which a cost model compares.
// Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "collective/schedule/allreduce_algorithm.h"
#include "collective/schedule/hierarchy.h"
#include "collective/schedule/schedule.h"

namespace tandem::collective {

// Selects the algorithm of an allreduce of host memory. Must be the same on all ranks.
struct AllReduceRule {
  size_t direct_bytes_max = 4 << 10;  // up to this size all ranks send to all (low latency)
  int direct_ranks_max = 8;           // with more ranks the ring is used at any size
  size_t pair_bytes_max = 256 << 10;  // up to this size two ranks exchange everything at once
  // Adds in the order of the tree of ring.h, whatever the size. The result has the same bits as
  // that of a parameter server, and as that of one process that adds parts of a batch. Disables
  // groups, because the tree begins with the nearest ranks anyway.
  bool tree_order = false;
  // Ranks of a group, for the hierarchical allreduce of large data; 1: no groups. The number of
  // ranks must be a multiple.
  int group = 1;
  HierarchyForm form = HierarchyForm::kShards;
  // For allreduce and reduce, sorted by size: the first choice with bytes_max >= the size of the
  // call decides. Only tree_order precedes the choices. Each algorithm must serve the ranks
  // (Serves).
  std::vector<AllReduceChoice> choices;
};

// Returns whether `algorithm` works for `size` ranks in groups of `group` (1: no groups).
bool Serves(AllReduceAlgorithm algorithm, int size, int group);

// The algorithm for `bytes` bytes among `size` ranks without shared memory.
AllReduceAlgorithm ChooseAllReduce(const AllReduceRule& rule, int size, size_t bytes);
// The rule that always chooses `algorithm`. REQUIRES: Serves(algorithm, size, group).
AllReduceRule Always(AllReduceAlgorithm algorithm, int group);

// The schedule of one rank. kDirect works on a buffer of size * bytes, whose part r is rank r's;
// every rank then adds up the parts itself. All others work on a buffer of `count` elements.
// REQUIRES: Serves(algorithm, size, group).
Schedule AllReduceSchedule(AllReduceAlgorithm algorithm, int rank, int size, int group,
                           size_t count, size_t element_bytes);

// The same for a reduce-scatter of `count` elements, a multiple of `size`. Each rank gets the bits
// of its part of an allreduce by `algorithm`. If AddsTree(algorithm), the schedule only collects
// all ranks' shares of the own part (rank r's as part r); the caller must add them.
Schedule ReduceScatterSchedule(AllReduceAlgorithm algorithm, int rank, int size, int group,
                               size_t count, size_t element_bytes);
// Whether `algorithm` adds in the order of the tree of ring.h.
bool AddsTree(AllReduceAlgorithm algorithm);

}  // namespace tandem::collective
