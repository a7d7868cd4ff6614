#include "collective/schedule/hierarchy.h"

#include "absl/strings/str_format.h"
#include "collective/schedule/halving.h"
#include "collective/schedule/ring.h"
#include "common/base/require.h"

namespace tandem::collective {
namespace {

// Appends the schedule `part` of a subset of the ranks to `whole`. Member i of the subset is rank
// `first + i * stride`. Byte 0 of `part` is byte `begin` of the buffer of `whole`.
void Append(const Schedule& part, int first, int stride, size_t begin, Schedule* whole) {
  for (Step step : part) {
    if (step.send_to >= 0) step.send_to = first + step.send_to * stride;
    if (step.recv_from >= 0) step.recv_from = first + step.recv_from * stride;
    step.send = {step.send.begin + begin, step.send.end + begin};
    step.recv = {step.recv.begin + begin, step.recv.end + begin};
    whole->push_back(step);
  }
}

}  // namespace

Schedule HierarchicalAllReduce(HierarchyForm form, int rank, int size, int group, size_t count,
                               size_t element_bytes) {
  TD_REQUIRE(group > 0 && size % group == 0 && size > group);
  const int local = rank % group, first = rank - local, groups = size / group;
  Schedule steps;
  if (form == HierarchyForm::kLeaders) {
    Append(RingReduce(local, group, 0, count, element_bytes), first, 1, 0, &steps);
    if (local == 0) {
      Append(RingAllReduce(rank / group, groups, count, element_bytes), 0, group, 0, &steps);
    }
    Append(ChainBroadcast(local, group, 0, count * element_bytes), first, 1, 0, &steps);
    return steps;
  }
  Append(RingReduceScatter(local, group, count, element_bytes), first, 1, 0, &steps);
  const Range shard = RingChunk(count, element_bytes, group, local);
  Append(RingAllReduce(rank / group, groups, shard.size() / element_bytes, element_bytes), local,
         group, shard.begin, &steps);
  Append(RingAllGather(local, group, count, element_bytes), first, 1, 0, &steps);
  return steps;
}

Schedule HierarchicalReduceScatter(HierarchyForm form, int rank, int size, int group, size_t count,
                                   size_t element_bytes) {
  TD_REQUIRE(group > 0 && size % group == 0 && size > group);
  TD_REQUIRE(count % static_cast<size_t>(size) == 0);
  const int local = rank % group, first = rank - local, groups = size / group;
  const auto part = [&](int r) { return RingChunk(count, element_bytes, size, r); };
  Schedule steps;
  if (form == HierarchyForm::kLeaders) {
    Append(RingReduce(local, group, 0, count, element_bytes), first, 1, 0, &steps);
    if (local == 0) {
      Append(RingReduceScatter(rank / group, groups, count, element_bytes), 0, group, 0, &steps);
    }
    for (int r = first + 1; r < first + group; ++r) {
      if (local == 0) steps.push_back({.send_to = r, .send = part(r)});
      if (rank == r) steps.push_back({.recv_from = first, .recv = part(r)});
    }
    return steps;
  }
  Append(RingReduceScatter(local, group, count, element_bytes), first, 1, 0, &steps);
  const Range shard = RingChunk(count, element_bytes, group, local);
  Append(RingReduceScatter(rank / group, groups, shard.size() / element_bytes, element_bytes),
         local, group, shard.begin, &steps);
  // At this point this rank has the part of rank `owner`, and rank `holder` has this rank's part.
  const int owner = local * groups + rank / group;
  const int holder = rank % groups * group + rank / groups;
  if (owner == rank) return steps;
  steps.push_back({owner, part(owner), holder, part(rank)});
  return steps;
}

Schedule ReduceToGroups(bool tree, int rank, int size, int group, int root, size_t count,
                        size_t element_bytes) {
  TD_REQUIRE(group > 0 && size % group == 0);
  TD_REQUIRE(root >= 0 && root < group);
  const int local = rank % group, groups = size / group;
  Schedule steps;
  Append(tree ? HalvingReduce(local, group, root, count, element_bytes)
              : RingReduce(local, group, root, count, element_bytes),
         rank - local, 1, 0, &steps);
  if (local != root) return steps;
  Append(tree ? HalvingDoublingAllReduce(rank / group, groups, count, element_bytes)
              : RingAllReduce(rank / group, groups, count, element_bytes),
         root, group, 0, &steps);
  return steps;
}

Schedule BroadcastInGroups(int rank, int group, int root, size_t bytes) {
  TD_REQUIRE(root >= 0 && root < group);
  const int local = rank % group;
  Schedule steps;
  Append(ChainBroadcast(local, group, root, bytes), rank - local, 1, 0, &steps);
  return steps;
}

std::string DescribeGroups(int size, int group) {
  constexpr int kShown = 4;
  std::string groups, leaders;
  for (int first = 0; first < size; first += group) {
    const int index = first / group, left = size / group - index;
    if (index == kShown && left > 1) {
      groups += absl::StrFormat(" (%d more)", left - 1);
      leaders += " ...";
      first = size - group;
    }
    groups += absl::StrFormat(" [%d..%d]", first, first + group - 1);
    leaders += absl::StrFormat(" %d", first);
  }
  return "groups" + groups + "; leaders" + leaders;
}

}  // namespace tandem::collective
