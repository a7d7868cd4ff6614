// Holds new pushes on one server for a global snapshot. A push to several servers is in the
// snapshot of all these servers, or of no server (docs/internals/global-snapshot.md).
//
// The coordinator makes all servers hold new pushes, and collects the pushes that each server
// accepted. The newest push of each trainer contains the trainer's message numbers by server. These
// numbers define the snapshot and make it consistent. A server accepts the missing pushes up to
// these numbers, then makes its snapshot. The leases only limit the waiting time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/require.h"
#include "pserver/shard/trainers/trainer_registry.h"
#include "pserver/state/bucket_move.h"
#include "pserver/state/global_snapshot.h"
#include "pserver/state/push.h"

namespace tandem::pserver {

// States: no hold (new pushes are accepted); Hold (no new push is accepted); Order (only pushes of
// the ordered snapshot are accepted). Order lasts until the verdict is OK or the hold ends. Not
// thread-safe (the shard's lock guards it).
class GlobalSnapshotHold {
 public:
  using Done = std::function<void(StatusOr<PendingSnapshot>)>;
  // The result of a hold that ended. `done` is null if no snapshot was ordered; otherwise the
  // caller must call `done`.
  struct Ended {
    Status why;
    Duration held{};  // time for which the server held new pushes
    Done done;
  };

  // `server`: index of this server. `held`: histogram of the seconds of each hold. `clock` and
  // `held` must outlive this object.
  GlobalSnapshotHold(int server, const Clock& clock, Histogram& held)
      : server_(server), clock_(clock), held_(held) {}

  // Highest number of a snapshot that was taken, abandoned or begun on this server.
  uint64_t last_number() const { return std::max(last_, hold_.number); }
  bool active() const { return hold_.number != 0 && clock_.Now() < hold_.until; }
  bool ordered() const { return hold_.order.has_value(); }
  // Returns the record of the ordered snapshot. REQUIRES: ordered().
  const SnapshotRecord& record() const {
    TD_REQUIRE(ordered());
    return hold_.order->record;
  }
  Time NextDeadline() const { return ordered() ? hold_.until : Time::max(); }

  // Holds new pushes for the lease, or prolongs the hold for snapshot `number`. Returns the
  // accepted pushes of all trainers. `sync`: the job is in sync mode, where steps and not the
  // numbers of messages define the snapshot. FAILED_PRECONDITION: this snapshot is over, or a
  // trainer does not number its messages (PushRequest.sent). UNAVAILABLE: pushes are held for
  // another snapshot.
  StatusOr<std::vector<SnapshotFrontier>> Hold(uint64_t number, uint64_t taker, Duration lease,
                                               const TrainerRegistry& trainers, bool sync = false);
  // Checks whether Order may be called. ABORTED: pushes are not held for this snapshot.
  // INVALID_ARGUMENT: the order does not list the frontiers of all trainers by rank.
  Status CheckOrder(const SnapshotRequest& order, const TrainerRegistry& trainers) const;
  // Orders the snapshot. From now on, the server accepts the pushes of the snapshot. REQUIRES:
  // CheckOrder(order) is OK.
  void Order(SnapshotRequest order, Done done);

  // OK: the shard may accept the push now. OUT_OF_RANGE: the sender must retry the push later.
  Status Admits(const PushHead& head) const;
  // OK: the shard has exactly the pushes of the snapshot. UNAVAILABLE: a push is still missing (the
  // message names the push). ABORTED: the snapshot is impossible. `version`: version of the shard.
  // REQUIRES: ordered().
  Status Verdict(const TrainerRegistry& trainers, const BucketPlacement& buckets,
                 uint64_t version) const;

  // End, Expire and Release return the ended hold; nullopt: no hold ended. End ends the hold with
  // the reason `why`.
  std::optional<Ended> End(const Status& why);
  // Ends the hold with DEADLINE_EXCEEDED if its lease has ended. The message says why the snapshot
  // was not made.
  std::optional<Ended> Expire(const TrainerRegistry& trainers, const BucketPlacement& buckets,
                              uint64_t version);
  // Ends the hold because the coordinator abandoned snapshot `number`. Has no effect if another
  // `taker` holds pushes for this number.
  std::optional<Ended> Release(uint64_t number, uint64_t taker);
  // Records that snapshot `number` is on the disk. Later snapshots must have higher numbers.
  void OnTaken(uint64_t number) { last_ = std::max(last_, number); }

 private:
  struct Current {
    uint64_t number = 0;  // number of the snapshot; 0: no hold
    uint64_t taker = 0;
    Time since, until;
    std::optional<SnapshotRequest> order;
    Done done;  // receives the snapshot; set together with `order`
  };
  // Returns the verdict in sync mode, where the snapshot has version `step`.
  static Status VerdictAtStep(uint64_t step, uint64_t version);
  // Returns the verdict for one trainer. OK: the server accepted the pushes of the trainer up to
  // `frontier`, and no later push.
  Status VerdictOf(const SnapshotFrontier& frontier, const TrainerRegistry& trainers) const;

  const int server_;
  const Clock& clock_;
  Histogram& held_;
  Current hold_;
  uint64_t last_ = 0;  // highest number of a snapshot that was taken or abandoned
};

}  // namespace tandem::pserver
