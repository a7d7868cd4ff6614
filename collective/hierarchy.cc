#include "collective/hierarchy.h"

#include "absl/strings/str_format.h"
#include "collective/ring.h"

namespace tandem {
namespace {

// Appends the schedule of a subset of the ranks, of which number i is `first + i * stride`, over
// the bytes from `begin` on.
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
  const Range shard = RingChunk(count, element_bytes, group, (local + 1) % group);
  Append(RingAllReduce(rank / group, groups, shard.size() / element_bytes, element_bytes), local,
         group, shard.begin, &steps);
  Append(RingGatherChunks(local, group, count, element_bytes), first, 1, 0, &steps);
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

}  // namespace tandem
