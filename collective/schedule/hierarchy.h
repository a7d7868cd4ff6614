// Allreduce over groups of ranks: the ranks of a group are near each other (the devices of one
// host), the groups are far apart. With groups of g, ranks [k*g, (k+1)*g) form group k. Pure
// functions, like ring.h.
#pragma once

#include <string>

#include "collective/schedule/schedule.h"

namespace tandem::collective {

enum class HierarchyForm : uint8_t {
  // Reduces to the first rank of the group, runs a ring allreduce among these leaders, then
  // broadcasts in the group. The form of PaddlePaddle Fleet (all_reduce_op_handle.cc of 2.0).
  kLeaders,
  // Runs a reduce-scatter in the group, a ring allreduce of each shard among the ranks that hold
  // it, then an all-gather in the group. Every rank has a share of the traffic between groups.
  // Source: Cho et al., "BlueConnect", MLSys 2019.
  kShards,
};

// In both forms, 2(m-1)/m of the bytes pass from each of m groups to the next: from one rank
// (kLeaders) or spread over g ranks (kShards). REQUIRES: `size` is a multiple of `group`, and
// larger. All ranks get the same bits. The order of reduction is the ring's (ring.h) in the group,
// then the ring's over the groups.
Schedule HierarchicalAllReduce(HierarchyForm form, int rank, int size, int group, size_t count,
                               size_t element_bytes);

// The same with the same bits, but rank r gets only part r of the result. REQUIRES: `count` is a
// multiple of `size`.
Schedule HierarchicalReduceScatter(HierarchyForm form, int rank, int size, int group, size_t count,
                                   size_t element_bytes);

// For data of which each group has a copy, and member `root` of each group keeps a part. That
// member gets the sum over all ranks: a reduce in the group, then an allreduce among these members
// of all groups. `tree`: both by halving and doubling, which gives the bits of the tree over all
// ranks if `group` is a power of two. Otherwise both by rings. REQUIRES: `size` is a multiple of
// `group`.
Schedule ReduceToGroups(bool tree, int rank, int size, int group, int root, size_t count,
                        size_t element_bytes);
// Broadcasts from member `root` of each group to its group.
Schedule BroadcastInGroups(int rank, int group, int root, size_t bytes);

// Example: "groups [0..3] [4..7]; leaders 0 4". Omits the middle if there are many groups.
std::string DescribeGroups(int size, int group);

}  // namespace tandem::collective
