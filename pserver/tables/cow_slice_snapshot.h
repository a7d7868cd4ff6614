// A copy-on-write snapshot of the dense slices of a shard. The snapshot has the values that the
// slices had when Begin was called. The slices are copied one after another while the shard changes
// them. Each slice is copied before its first change.
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

  // Begins a snapshot of the slices with the indices [0, slices). Drops a snapshot in progress.
  void Begin(size_t slices);
  // Copies a slice. Has no effect if the slice is not part of a snapshot, or is already copied.
  Status CopySlice(int slice);
  Status CopyAll();
  // Ends the snapshot and returns one copy per slice. REQUIRES: every slice was copied since Begin.
  // RESOURCE_EXHAUSTED: Abandon was called, because there was no memory to copy a slice before its
  // removal.
  StatusOr<std::vector<SliceSnapshot>> Finish();
  // Drops the copies. The object copies no further slice until the next Begin.
  void Abandon();

 private:
  struct Entry {
    SliceSnapshot copy;    // a null `param` means that the slice is not copied
    bool pending = false;  // the slice must still be copied
  };

  const Copy copy_;
  std::vector<Entry> entries_;  // by index of the slice at Begin
};

}  // namespace tandem::pserver
