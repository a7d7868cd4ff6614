#include "pserver/rocksdb/snapshot_lineage.h"

#include "common/base/require.h"

namespace tandem::pserver {

std::set<uint64_t> SnapshotLineage::Predecessors(uint64_t head) const {
  std::set<uint64_t> found;
  for (auto it = parents_.find(head); it != parents_.end(); it = parents_.find(it->second)) {
    found.insert(it->first);
  }
  if (!found.empty()) return found;
  for (const auto& [number, parent] : parents_) found.insert(number);
  return found;
}

uint64_t SnapshotLineage::Remaining(uint64_t number, const std::set<uint64_t>& removed) const {
  while (number != 0 && removed.contains(number)) {
    const auto it = parents_.find(number);
    const uint64_t parent = it == parents_.end() ? 0 : it->second;
    TD_REQUIRE(parent < number);  // so that the loop ends
    number = parent;
  }
  return number;
}

void SnapshotLineage::Remove(const std::set<uint64_t>& numbers) {
  TD_REQUIRE(!numbers.contains(0));
  std::map<uint64_t, uint64_t> rest;
  for (const auto& [number, parent] : parents_) {
    if (!numbers.contains(number)) rest[number] = Remaining(parent, numbers);
  }
  parents_ = std::move(rest);
}

}  // namespace tandem::pserver
