// Schedules for groups of ranks. The ranks of a group are near each other, for example on one host.
// If a group has g ranks, ranks [k*g, (k+1)*g) form group k. All functions are pure.
#pragma once

#include <string>

#include "collective/schedule/schedule.h"

namespace tandem::collective {

enum class HierarchyForm : uint8_t {
  // Three phases: a reduce to the first rank of each group (the leader), a ring allreduce among the
  // leaders, a broadcast in each group. Source: PaddlePaddle Fleet (all_reduce_op_handle.cc of
  // 2.0).
  kLeaders,
  // Three phases: a reduce-scatter in each group, a ring allreduce of each shard among the ranks
  // that have this shard, and an all-gather in each group. Every rank has a share of the traffic
  // between groups. Source: Cho et al., "BlueConnect", MLSys 2019.
  kShards,
};

// Returns the allreduce schedule of one rank. In both forms each of m groups sends 2(m-1)/m of the
// bytes to the next group. With kLeaders one rank of a group sends all these bytes. With kShards
// all ranks of a group send equal shares. All ranks get the same bits. Both the reduction in a
// group and the reduction over the groups have the ring order of ring.h. REQUIRES: `size` is a
// multiple of `group` and greater than `group`.
Schedule HierarchicalAllReduce(HierarchyForm form, int rank, int size, int group, size_t count,
                               size_t element_bytes);

// Like HierarchicalAllReduce with the same bits, but rank r gets only part r of the result.
// REQUIRES: `count` is a multiple of `size`.
Schedule HierarchicalReduceScatter(HierarchyForm form, int rank, int size, int group, size_t count,
                                   size_t element_bytes);

// Returns the schedule of a reduction over all ranks to member number `root` of each group. The
// schedule is a reduce in each group, then an allreduce among these members of all groups. If
// `tree` is true, both phases use halving and doubling; if `group` is a power of two, the result
// then has the bits of the tree over all ranks. If `tree` is false, both phases use rings.
// REQUIRES: `size` is a multiple of `group`.
Schedule ReduceToGroups(bool tree, int rank, int size, int group, int root, size_t count,
                        size_t element_bytes);
// Returns the schedule of a broadcast from member number `root` of each group to the other members.
Schedule BroadcastInGroups(int rank, int group, int root, size_t bytes);

// Returns a text about the groups, such as "groups [0..3] [4..7]; leaders 0 4". If there are many
// groups, the text omits the middle ones.
std::string DescribeGroups(int size, int group);

}  // namespace tandem::collective
