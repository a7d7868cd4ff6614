// Records which slices and tables of a shard have their initial values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tandem::pserver {

// One flag for each slice and table: whether its initial values are set. Flags have the indices of
// ShardParams. Not thread-safe.
class InitProgress {
 public:
  explicit InitProgress(size_t size) { Set(std::vector<bool>(size, false)); }

  bool whole() const { return count_ == flags_.size(); }
  size_t count() const { return count_; }  // number of slices and tables that have their values
  size_t size() const { return flags_.size(); }
  const std::vector<bool>& flags() const { return flags_; }
  // Replaces all flags. `flags` may have another length than before.
  void Set(std::vector<bool> flags) {
    flags_ = std::move(flags);
    count_ = static_cast<size_t>(std::count(flags_.begin(), flags_.end(), true));
  }
  void SetAll(size_t size) { Set(std::vector<bool>(size, true)); }
  void SetAll() { SetAll(size()); }

 private:
  std::vector<bool> flags_;
  size_t count_ = 0;  // number of true entries in flags_
};

}  // namespace tandem::pserver
