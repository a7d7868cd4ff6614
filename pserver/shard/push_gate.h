// The checks that a push passes before a shard accepts it. In order, they concern: values that a
// replay waits for, sequence number, ownership generation, held step, hold for a global snapshot,
// room in the log, step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pserver/shard/bucket_migrations.h"
#include "pserver/shard/push_replay.h"
#include "pserver/shard/shard_state.h"
#include "pserver/shard/trainers/global_snapshot_hold.h"

namespace tandem::pserver {

// Checks a push twice (Admit, then Recheck), because its values are copied without the lock in
// between. Changes nothing except the learning rate of the step. Not thread-safe (the shard's lock
// guards it).
class PushGate {
 public:
  // All arguments must outlive this object.
  PushGate(const ShardState& state, const PushReplay& replay, const BucketMigrations& migrations,
           const GlobalSnapshotHold& hold)
      : state_(state), replay_(replay), migrations_(migrations), hold_(hold) {}

  // Checks everything about the push except its caller and its values. Returns memory for the
  // values. `in_place`: as in Shard::AdmitPush.
  StatusOr<PushTicket> Admit(const PushHead& head, std::span<const void* const> in_place) const;
  // Checks an admitted push again. Since Admit, the same push, a newer incarnation, a move or a
  // snapshot may have come. Updates the verdict and the slices of the ticket.
  Status Recheck(const PushHead& head, PushTicket& ticket) const;
  // Checks a push without its values. OUT_OF_RANGE: the sender must send it again later, or split
  // it again among the servers. FAILED_PRECONDITION and INVALID_ARGUMENT: the push can never be
  // accepted.
  StatusOr<PushVerdict> Check(const PushHead& head) const;
  // Checks the step of the push and its learning rate.
  Status CheckStep(const PushHead& head) const;

  // Sync: returns whether this push completes the step.
  bool CompletesStep(const PushHead& head) const;
  // Sync: copies values that are still in the received message, if the push does not complete the
  // step. A copy can become necessary after Admit.
  Status OwnValuesIfStepWaits(const PushHead& head, PushTicket& ticket) const;

  // ---- The learning rate of a step (sync), which all trainers must send -------------------------
  void OnAccepted(const PushHead& head);
  // Drops the rate of the step if the older incarnation of the trainer set it.
  void OnReplaced(int trainer);
  // Returns the learning rate of the step. REQUIRES: a push of the step was accepted.
  float step_rate() const;
  void OnStepEnded() { step_rate_.reset(); }

 private:
  struct StepRate {
    int trainer = 0;  // trainer that sent the rate first
    float learning_rate = 0;
  };
  // Returns whether the push is new or a duplicate. A push is a duplicate if this server, or the
  // previous owner of its rows, has accepted it before.
  StatusOr<PushVerdict> CheckSequence(const PushHead& head) const;
  // OUT_OF_RANGE or a status of the log: the push cannot be accepted now, and must be sent again
  // later.
  Status CheckTime(const PushHead& head) const;
  Status CheckRate(const PushHead& head) const;

  const ShardState& state_;
  const PushReplay& replay_;
  const BucketMigrations& migrations_;
  const GlobalSnapshotHold& hold_;
  std::optional<StepRate> step_rate_;
};

}  // namespace tandem::pserver
