// The hold of new pushes on one server for a global snapshot: a state in which each acknowledged
// push is on all of its servers or on none (docs/internals/global-snapshot.md).
//
// The coordinator makes all servers hold new pushes and collects the pushes that each accepted. For
// each trainer, the numbers in the newest of these pushes define the snapshot, by server. A server
// waits for the missing pushes before these numbers, then makes its snapshot. Leases only limit the
// waiting time. The numbers alone ensure that the snapshot is consistent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "pserver/shard/trainer_registry.h"
#include "pserver/state/bucket_move.h"
#include "pserver/state/global_snapshot.h"
#include "pserver/state/push.h"

namespace tandem::pserver {

// States: no hold; Hold: no new push is accepted; Order: pushes of the ordered snapshot are
// accepted, until the verdict is OK or the hold ends. Not thread-safe (the shard's lock guards it).
class GlobalSnapshotHold {
 public:
  using Done = std::function<void(StatusOr<PendingSnapshot>)>;
  // The end of a hold. `done` is null if no snapshot was ordered; otherwise its owner must call it.
  struct Ended {
    Status why;
    Duration held{};  // time without new pushes
    Done done;
  };

  // `server`: index of this server. `held` records the seconds of each hold. The clock and `held`
  // must outlive this.
  GlobalSnapshotHold(int server, const Clock& clock, Histogram& held)
      : server_(server), clock_(clock), held_(held) {}

  // Highest number of a snapshot that was taken, abandoned or begun here.
  uint64_t last_number() const { return std::max(last_, hold_.number); }
  bool active() const { return hold_.number != 0 && clock_.Now() < hold_.until; }
  bool ordered() const { return hold_.order.has_value(); }
  Time NextDeadline() const { return ordered() ? hold_.until : Time::max(); }

  // Holds new pushes for the lease, or prolongs the hold of this snapshot. Returns the accepted
  // pushes of all trainers. FAILED_PRECONDITION: this snapshot is over, or a trainer does not
  // number its messages by push. UNAVAILABLE: pushes are held for another snapshot.
  StatusOr<std::vector<SnapshotFrontier>> Hold(uint64_t number, uint64_t taker, Duration lease,
                                               const TrainerRegistry& trainers);
  // ABORTED: pushes are not held for this snapshot. INVALID_ARGUMENT: a trainer's frontier is
  // missing.
  Status CheckOrder(const SnapshotRequest& order, const TrainerRegistry& trainers) const;
  // From now on, the pushes of the snapshot are accepted. REQUIRES: CheckOrder(order) is OK.
  void Order(SnapshotRequest order, Done done);

  // OK, or OUT_OF_RANGE: this new push must be sent again later.
  Status Admits(const PushHead& head) const;
  // OK: the state is that of the snapshot. UNAVAILABLE: pushes are still missing (the message names
  // them). ABORTED: the snapshot is impossible. REQUIRES: ordered().
  Status Verdict(const TrainerRegistry& trainers, const BucketPlacement& buckets) const;

  // Each returns the end of the hold, or nullopt: nothing is held. The first ends the hold for any
  // reason.
  std::optional<Ended> End(const Status& why);
  // At the end of the lease, with the reason for which the snapshot is missing.
  std::optional<Ended> Expire(const TrainerRegistry& trainers, const BucketPlacement& buckets);
  // The coordinator abandons snapshot `number`. No effect if another `taker` holds pushes for it.
  std::optional<Ended> Release(uint64_t number, uint64_t taker);
  // Snapshot `number` is on the disk: later ones have higher numbers.
  void OnTaken(uint64_t number) { last_ = std::max(last_, number); }

 private:
  struct Current {
    uint64_t number = 0;  // 0: none
    uint64_t taker = 0;
    Time since, until;
    std::optional<SnapshotRequest> order;
    Done done;  // set together with `order`
  };
  // The verdict on the pushes of one trainer.
  Status VerdictOf(const SnapshotFrontier& frontier, const TrainerRegistry& trainers) const;

  const int server_;
  const Clock& clock_;
  Histogram& held_;
  Current hold_;
  uint64_t last_ = 0;  // last one taken or abandoned
};

}  // namespace tandem::pserver
