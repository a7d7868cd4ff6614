// Copies the state of a shard between two updates while the shard goes on. Values are copied before
// they change, so the copy is that of the moment at which it began (copy-on-write).
#pragma once

#include <cstdint>

#include "pserver/shard/delta_base.h"
#include "pserver/shard/shard_state.h"
#include "pserver/state/move_state.h"
#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// At most one copy is in progress at a time: Begin, then CopyChunk until it returns true and
// Finish; or Abandon. Reads the state, and settles it if there is no log. Not thread-safe (the
// shard's lock guards it).
class Snapshotter {
 public:
  struct Copy {
    uint64_t number = 0;  // 0: it is complete
    ShardSnapshot snapshot;
    ShardSnapshotter::Position copied;
  };

  // Both must outlive it.
  Snapshotter(ShardState& state, DeltaBase& base) : state_(state), base_(base) {}

  // Begins a copy of the current state. If another copy is in progress, copies all values at once.
  // `delta`: for tables, only changes since the base. REQUIRES: the shard has parameters.
  StatusOr<Copy> Begin(bool delta, const MoveState& moves);
  // Copies all values at once.
  StatusOr<ShardSnapshot> CopyNow(bool delta, const MoveState& moves);
  // Copies some more values. Returns true if all are copied. ABORTED: the state was replaced.
  StatusOr<bool> CopyChunk(Copy& copy);
  // REQUIRES: CopyChunk returned true, without an unlock since.
  StatusOr<ShardSnapshot> Finish(Copy& copy);
  // No effect if the copy is complete or the state was replaced.
  void Abandon(const Copy& copy);
  // The state is replaced: a copy in progress is impossible.
  void Reset();

 private:
  // A snapshot without slices and rows, but with the rows before the last update.
  ShardSnapshot Header(bool delta, const MoveState& moves);

  ShardState& state_;
  DeltaBase& base_;
  bool copying_ = false;
  uint64_t number_ = 0;  // number of the copy in progress, or of the last one
};

}  // namespace tandem::pserver
