// Calls to a shard for a global snapshot, a_sync (docs/internals/global-snapshot.md).
#pragma once

#include <cstdint>
#include <string>

#include "pserver/shard/shard.h"

namespace tandem::pserver {

// Thread-safe, as the shard.
class Shard::GlobalSnapshots {
 public:
  explicit GlobalSnapshots(Shard& shard) : shard_(shard) {}

  // Holds new pushes until Take, Release or the end of the lease, and returns the accepted pushes.
  // A snapshot has one `taker` and a number above all earlier ones. UNAVAILABLE: rows are moving,
  // or pushes are held for another snapshot. FAILED_PRECONDITION: this snapshot is over, or a
  // trainer does not number its messages by push.
  StatusOr<PausedState> Hold(const std::string& job, uint64_t number, Duration lease,
                             uint64_t taker = 0);
  void Release(const std::string& job, uint64_t number, uint64_t taker = 0);
  // Accepts the missing pushes of the snapshot, then passes the state to `done` and accepts new
  // pushes again. The state contains exactly the pushes of the snapshot. ABORTED: this is no longer
  // possible. DEADLINE_EXCEEDED: pushes are missing (the message names them). REQUIRES (else
  // ABORTED): pushes are held for this snapshot.
  void Take(const std::string& job, SnapshotRequest order, Done<PendingSnapshot> done);
  // The snapshot is on the disk: later ones have higher numbers.
  void OnTaken(uint64_t number);

 private:
  Status CheckPossible(const std::string& job) TD_REQUIRES(shard_.mu_);
  // Moves `order` and `done` into the hold if that is possible.
  Status Order(const std::string& job, SnapshotRequest& order, Done<PendingSnapshot>& done)
      TD_REQUIRES(shard_.mu_);

  Shard& shard_;
};

}  // namespace tandem::pserver
