// Which global snapshots of a store are predecessors of the present state.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace tandem::pserver {

// Each global snapshot has a parent: the snapshot that was taken or restored before it. The head is
// the snapshot that was taken or restored last. The head and its ancestors are the predecessors of
// the present state. Not thread-safe.
class SnapshotLineage {
 public:
  // Adds a snapshot. `parent`: a lower number; 0 or not lower: none.
  void Add(uint64_t number, uint64_t parent) { parents_[number] = parent < number ? parent : 0; }
  // Returns the predecessors of the present state. `head` 0 or unknown: all snapshots are.
  std::set<uint64_t> Predecessors(uint64_t head) const;
  // Removes snapshots. Their children get the parents of the removed ones.
  void Remove(const std::set<uint64_t>& numbers);
  // Returns `number`, or the nearest ancestor that is not in `removed`; 0: there is none. Call it
  // before Remove.
  uint64_t Remaining(uint64_t number, const std::set<uint64_t>& removed) const;
  // Returns the highest number; 0: there is no snapshot.
  uint64_t newest() const { return parents_.empty() ? 0 : parents_.rbegin()->first; }
  const std::map<uint64_t, uint64_t>& parents() const { return parents_; }

 private:
  std::map<uint64_t, uint64_t> parents_;  // by number
};

}  // namespace tandem::pserver
