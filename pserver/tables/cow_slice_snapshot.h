// A copy-on-write snapshot of the dense slices of a shard. It has the values that the slices have
// at Begin. The slices are copied one after another while the shard changes them. Each slice is
// copied before its first change.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// Call Begin, then CopySlice for each slice, then Finish. Abandon may be called at any time.
// Between Begin and Finish, the owner calls CopySlice before it changes a slice, and CopyAll before
// the indices of slices change. Not thread-safe, except that threads may copy different slices.
class CowSliceSnapshot {
 public:
  // Returns a copy of the current state of a slice.
  using Copy = std::function<StatusOr<SliceSnapshot>(int slice)>;

  explicit CowSliceSnapshot(Copy copy) : copy_(std::move(copy)) {}

  // Begins a snapshot of the slices with the indices [0, slices). It replaces a snapshot in
  // progress.
  void Begin(size_t slices);
  // Copies a slice. Has no effect if the slice is not part of a snapshot, or is already copied.
  Status CopySlice(int slice);
  Status CopyAll();
  // Ends the snapshot and returns it. REQUIRES: every slice was copied since Begin.
  // RESOURCE_EXHAUSTED: there was no memory for a copy of a removed slice (Abandon was called).
  StatusOr<std::vector<SliceSnapshot>> Finish();
  // Drops the copies and copies no further slice.
  void Abandon();

 private:
  struct Entry {
    SliceSnapshot copy;    // if `param` is null, the slice is not copied
    bool pending = false;  // the slice must still be copied
  };

  const Copy copy_;
  std::vector<Entry> entries_;  // by index of the slice at Begin
};

}  // namespace tandem::pserver
