// Calls to a shard for a global snapshot (docs/internals/global-snapshot.md).
#pragma once

#include <cstdint>
#include <string>

#include "pserver/shard/shard.h"

namespace tandem::pserver {

// Thread-safe, like Shard.
class Shard::GlobalSnapshots {
 public:
  explicit GlobalSnapshots(Shard& shard) : shard_(shard) {}

  // Holds new pushes until Take, Release or the end of the lease. Returns the accepted pushes. A
  // snapshot is identified by its `taker` and by a number above all earlier numbers. UNAVAILABLE:
  // rows are moving, or pushes are held for another snapshot. FAILED_PRECONDITION: this snapshot is
  // over, or a trainer does not number its messages (PushRequest.sent).
  StatusOr<PausedState> Hold(const std::string& job, uint64_t number, Duration lease,
                             uint64_t taker = 0);
  void Release(const std::string& job, uint64_t number, uint64_t taker = 0);
  // Accepts the missing pushes of the snapshot, passes the state to `done`, then accepts all pushes
  // again. The state contains exactly the pushes of the snapshot. ABORTED: the snapshot is no
  // longer possible, or pushes are not held for this snapshot. DEADLINE_EXCEEDED: pushes are still
  // missing at the end of the lease (the message names the first).
  void Take(const std::string& job, SnapshotRequest order, Done<PendingSnapshot> done);
  // Records that the snapshot is on the disk. Later snapshots must have higher numbers.
  void OnTaken(uint64_t number);

 private:
  Status CheckPossible(const std::string& job) TD_REQUIRES(shard_.mu_);
  // Moves `order` and `done` into the hold. On an error, `order` and `done` stay unchanged.
  Status Order(const std::string& job, SnapshotRequest& order, Done<PendingSnapshot>& done)
      TD_REQUIRES(shard_.mu_);

  Shard& shard_;
};

}  // namespace tandem::pserver
