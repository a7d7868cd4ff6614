// Copies the state of a shard while the shard continues (copy-on-write): a value is copied before
// it changes, so the copy has the state at the begin of the copy.
#pragma once

#include <cstdint>

#include "pserver/shard/log/delta_base.h"
#include "pserver/shard/shard_state.h"
#include "pserver/state/move_state.h"
#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// Call Begin, then CopyChunk until it returns true, then Finish; or call Abandon. At most one copy
// is in progress at a time. Reads the state, and calls ShardState::Settle if there is no log. Not
// thread-safe (the shard's lock guards it).
class Snapshotter {
 public:
  struct Copy {
    uint64_t number = 0;  // number of the copy; 0: the copy was complete after Begin
    ShardSnapshot snapshot;
    ShardSnapshotter::Position copied;
  };

  // Both arguments must outlive this object.
  Snapshotter(ShardState& state, DeltaBase& base) : state_(state), base_(base) {}

  // Begins a copy of the current state. If another copy is in progress, copies all values at once
  // instead. `delta`: copies only the changes of tables since the base. REQUIRES: the shard has
  // parameters.
  StatusOr<Copy> Begin(bool delta, const MoveState& moves);
  // Copies all values of the current state at once.
  StatusOr<ShardSnapshot> CopyNow(bool delta, const MoveState& moves);
  // Copies the next values. Returns true if all values are copied. ABORTED: the state was replaced
  // since Begin.
  StatusOr<bool> CopyChunk(Copy& copy);
  // Returns the snapshot. REQUIRES: CopyChunk returned true, and the lock was not released since.
  StatusOr<ShardSnapshot> Finish(Copy& copy);
  // Abandons the copy. Has no effect if the copy is complete or the state was replaced.
  void Abandon(const Copy& copy);
  // Makes a copy in progress fail with ABORTED. Called when the state is replaced.
  void Reset();

 private:
  // Returns a snapshot without slices and without rows. It has the weights that rows had before the
  // last update.
  ShardSnapshot Header(bool delta, const MoveState& moves);

  ShardState& state_;
  DeltaBase& base_;
  bool copying_ = false;
  uint64_t number_ = 0;  // number of the newest copy
};

}  // namespace tandem::pserver
