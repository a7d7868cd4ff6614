// The algorithms of an allreduce: what the communicator chooses from, and what a cost model
// compares. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "collective/schedule/allreduce_algorithm.h"
#include "collective/schedule/hierarchy.h"
#include "collective/schedule/schedule.h"

namespace tandem {

// Which algorithm an allreduce of host memory takes. The same on all ranks.
struct AllReduceRule {
  size_t direct_bytes_max = 4 << 10;  // up to here everybody sends to everybody (latency)
  int direct_ranks_max = 8;           // with more ranks the ring is used at any size
  size_t pair_bytes_max = 256 << 10;  // up to here two ranks exchange everything in one step
  // Sums as the tree of ring.h, whatever their size: the same bits as a parameter server's, and as
  // one process that adds parts of a batch. No groups then: the tree begins with the nearest ranks
  // anyway.
  bool tree_order = false;
  // Ranks of a group, for hierarchical allreduce of what is not small; 1: no groups. The size must
  // be a multiple.
  int group = 1;
  HierarchyForm form = HierarchyForm::kShards;
  // Of an allreduce and a reduce: the first choice that reaches as far counts, before what is said
  // above but tree_order. By size; each serves the ranks (Serves).
  std::vector<AllReduceChoice> choices;
};

// Whether it is one for `size` ranks in groups of `group` (1: no groups).
bool Serves(AllReduceAlgorithm algorithm, int size, int group);

// The algorithm for `bytes` bytes among `size` ranks without shared memory.
AllReduceAlgorithm ChooseAllReduce(const AllReduceRule& rule, int size, size_t bytes);
// The rule that always chooses `algorithm`. REQUIRES: Serves(algorithm, size, group).
AllReduceRule Always(AllReduceAlgorithm algorithm, int group);

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
