// Finds the dense slices of a shard by variable and element.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/status.h"
#include "pserver/state/pull.h"
#include "pserver/state/shard_config.h"

namespace tandem::pserver {

// The index of a list of slices. Immutable. The functions return positions in the list that the
// constructor received.
class SliceIndex {
 public:
  SliceIndex() = default;
  // REQUIRES: no two slices have elements in common.
  explicit SliceIndex(const std::vector<SliceSpec>& slices);

  bool Holds(const std::string& variable) const { return by_variable_.contains(variable); }
  // Returns the slice of `variable` that begins at element `offset`. NOT_FOUND: the variable is
  // unknown (the message has the nearest name), or no slice begins at `offset` (the message has the
  // begin of the slice that contains `offset`, or the ranges of all slices).
  StatusOr<int> Find(const std::string& variable, int64_t offset) const;
  // Returns the slice that contains all elements of `range`. NOT_FOUND: the variable is unknown, or
  // no slice contains the whole range.
  StatusOr<int> FindRange(const PullRange& range) const;

 private:
  struct Entry {
    int64_t offset, numel;
    int slice;
  };
  StatusOr<const Entry*> FindEntry(const PullRange& range) const;

  // By variable: its slices by ascending offsets.
  std::unordered_map<std::string, std::vector<Entry>> by_variable_;
  std::vector<std::string> names_;  // names of variables, for "did you mean"
};

}  // namespace tandem::pserver
