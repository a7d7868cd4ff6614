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

// Immutable. Indices of slices are positions in the list of the constructor.
class SliceIndex {
 public:
  SliceIndex() = default;
  // REQUIRES: no two slices have the same elements.
  explicit SliceIndex(const std::vector<SliceSpec>& slices);

  bool Holds(const std::string& variable) const { return by_variable_.contains(variable); }
  // Returns the slice of `variable` that begins at `offset`. NOT_FOUND: unknown variable (with the
  // nearest name), or no slice begins there (with the existing offsets).
  StatusOr<int> Find(const std::string& variable, int64_t offset) const;
  // Returns the slice that contains all of [offset, offset + numel). NOT_FOUND: as above.
  StatusOr<int> FindRange(const PullRange& range) const;

 private:
  struct Entry {
    int64_t offset, numel;
    int slice;
  };
  StatusOr<const Entry*> FindEntry(const PullRange& range) const;

  std::unordered_map<std::string, std::vector<Entry>> by_variable_;  // ascending offsets
  std::vector<std::string> names_;                                   // for "did you mean"
};

}  // namespace tandem::pserver
