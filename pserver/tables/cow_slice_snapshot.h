// A copy-on-write snapshot of the dense slices of a shard. It has all values as they are at Begin.
// It is copied slice by slice while the slices change; a slice is copied before its first change.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// Call Begin, then CopySlice for each slice, then Finish; or Abandon at any time. Between Begin and
// Finish, the owner calls CopySlice before a change of a slice, and CopyAll before the indices of
// slices change. Not thread-safe, except that threads may copy separate slices.
class CowSliceSnapshot {
 public:
  // Copies the current state of a slice.
  using Copy = std::function<StatusOr<SliceSnapshot>(int slice)>;

  explicit CowSliceSnapshot(Copy copy) : copy_(std::move(copy)) {}

  // Begins a snapshot of the slices [0, slices). Replaces the snapshot in progress.
  void Begin(size_t slices);
  // Copies a slice. No effect if it is not part of a snapshot, or copied already.
  Status CopySlice(int slice);
  Status CopyAll();
  // Ends the snapshot and returns it. REQUIRES: every slice was copied since Begin.
  // RESOURCE_EXHAUSTED: a slice was removed and there was no memory to copy it (Abandon).
  StatusOr<std::vector<SliceSnapshot>> Finish();
  // Copies nothing any more and drops the copies.
  void Abandon();

 private:
  struct Entry {
    SliceSnapshot copy;    // `param` null: not copied
    bool pending = false;  // CopySlice copies it
  };

  const Copy copy_;
  std::vector<Entry> entries_;  // by slice, as of Begin
};

}  // namespace tandem::pserver
