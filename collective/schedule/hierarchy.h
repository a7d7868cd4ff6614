// Allreduce over groups of ranks that are near each other (the devices of one host) while the
// groups are far apart. Ranks [k*g, (k+1)*g) are group k of groups of g. Pure functions, like
// ring.h.
#pragma once

#include <string>

#include "collective/schedule/schedule.h"

namespace tandem {

enum class HierarchyForm : uint8_t {
  // Reduce to the group's first rank, ring allreduce among these leaders, broadcast in the group.
  // The form of PaddlePaddle Fleet (all_reduce_op_handle.cc of 2.0).
  kLeaders,
  // Reduce-scatter in the group, ring allreduce of each shard among the ranks that hold it,
  // all-gather in the group: every rank has a share of the traffic between groups. Source: Cho et
  // al., "BlueConnect", MLSys 2019.
  kShards,
};

// Between groups 2(m-1)/m of the bytes go from each of m groups to the next, in either form: from
// one rank (kLeaders) or spread over g (kShards). REQUIRES: `size` is a multiple of `group`, and
// larger. All ranks get the same bits; the order of reduction is the ring's (ring.h) in the group,
// then the ring's over the groups.
Schedule HierarchicalAllReduce(HierarchyForm form, int rank, int size, int group, size_t count,
                               size_t element_bytes);

// The same, and the same bits, but rank r gets part r of the result alone. REQUIRES: `count` is a
// multiple of `size`.
Schedule HierarchicalReduceScatter(HierarchyForm form, int rank, int size, int group, size_t count,
                                   size_t element_bytes);

// Each group has a copy of something, of which number `root` of the group keeps a part: it gets the
// sum over all ranks. In the group a reduce, then an allreduce among those who are `root` of
// theirs. `tree`: both by halving and doubling, which gives the bits of the tree over all ranks
// where `group` is a power of two; else by rings. REQUIRES: `size` is a multiple of `group`.
Schedule ReduceToGroups(bool tree, int rank, int size, int group, int root, size_t count,
                        size_t element_bytes);
// What number `root` of each group has goes to the group.
Schedule BroadcastInGroups(int rank, int group, int root, size_t bytes);

// "groups [0..3] [4..7]; leaders 0 4", with the middle left out when there are many.
std::string DescribeGroups(int size, int group);

}  // namespace tandem
