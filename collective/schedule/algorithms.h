// Chooses the algorithm of an allreduce and builds its schedule. Communicators and the cost model
// use these functions. All functions are pure.
#pragma once

#include <cstddef>
#include <vector>

#include "collective/schedule/allreduce_algorithm.h"
#include "collective/schedule/hierarchy.h"
#include "collective/schedule/schedule.h"

namespace tandem::collective {

// The rule that chooses the algorithm of an allreduce of host memory. The rule must be equal on all
// ranks.
struct AllReduceRule {
  // Maximum bytes of an allreduce in which all ranks send all data to all ranks (low latency).
  size_t direct_bytes_max = 4 << 10;
  int direct_ranks_max = 8;  // maximum number of ranks for kDirect
  // Maximum size in bytes of an allreduce in which two ranks exchange all data at once.
  size_t pair_bytes_max = 256 << 10;
  // True: reductions of any size use the tree order of ring.h. The result then has the same bits as
  // the sum of a parameter server. It also has the same bits as the sum of one process that adds
  // the parts of a batch. Groups are then not used, because the tree already begins with the
  // nearest ranks.
  bool tree_order = false;
  // Number of ranks in a group, for the hierarchical allreduce of large data; 1: no groups. The
  // total number of ranks must be a multiple of `group`.
  int group = 1;
  HierarchyForm form = HierarchyForm::kShards;
  // Choices for allreduce and reduce, sorted by size. A call uses the first choice whose bytes_max
  // is at least the size of the call. Only tree_order has precedence over this list. REQUIRES:
  // Serves is true for each algorithm.
  std::vector<AllReduceChoice> choices;
};

// Returns whether `algorithm` is possible for `size` ranks in groups of `group` (1: no groups).
bool Serves(AllReduceAlgorithm algorithm, int size, int group);

// Returns the algorithm for an allreduce of `bytes` bytes among `size` ranks without shared memory.
AllReduceAlgorithm ChooseAllReduce(const AllReduceRule& rule, int size, size_t bytes);
// Returns the rule that always chooses `algorithm`. REQUIRES: Serves(algorithm, size, group).
AllReduceRule Always(AllReduceAlgorithm algorithm, int group);

// Returns the allreduce schedule of one rank. The schedule of kDirect only collects the data of all
// ranks in a buffer of `size` parts; part r is the data of rank r. Every rank must then reduce the
// parts itself. The schedules of other algorithms use a buffer of `count` elements. REQUIRES:
// Serves(algorithm, size, group).
Schedule AllReduceSchedule(AllReduceAlgorithm algorithm, int rank, int size, int group,
                           size_t count, size_t element_bytes);

// Returns the reduce-scatter schedule of one rank. `count` is a multiple of `size`. The result has
// the same bits as the rank's part of an allreduce by `algorithm`. If AddsTree(algorithm), the
// schedule only collects the contributions of all ranks to this rank's part. Part r of the buffer
// is then the contribution of rank r, and the caller must reduce the parts.
Schedule ReduceScatterSchedule(AllReduceAlgorithm algorithm, int rank, int size, int group,
                               size_t count, size_t element_bytes);
// Returns whether `algorithm` reduces in the tree order of ring.h.
bool AddsTree(AllReduceAlgorithm algorithm);

}  // namespace tandem::collective
