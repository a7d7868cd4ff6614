// The checks that a push passes before a shard accepts it. The checks concern, in this order:
// values for which a replay waits, sequence number, ownership generation, held step, hold for a
// global snapshot, room in the log, step.
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

// Checks a push twice (Admit, then Recheck), because the caller copies the values between the two
// checks without the lock. Changes only the learning rate of the step. Not thread-safe (the shard's
// lock guards it).
class PushGate {
 public:
  // All arguments must outlive this object.
  PushGate(const ShardState& state, const PushReplay& replay, const BucketMigrations& migrations,
           const GlobalSnapshotHold& hold)
      : state_(state), replay_(replay), migrations_(migrations), hold_(hold) {}

  // Checks the push, except its caller and its values. Returns memory for the values. `in_place`:
  // see Shard::AdmitPush.
  StatusOr<PushTicket> Admit(const PushHead& head, std::span<const void* const> in_place) const;
  // Checks an admitted push again, because since Admit the same push, a newer incarnation, a move
  // or a snapshot may have arrived. Updates the verdict and the slices of the ticket.
  Status Recheck(const PushHead& head, PushTicket& ticket) const;
  // Checks a push without its values. Returns whether the push is new or a duplicate. OUT_OF_RANGE:
  // the sender must retry the push later, or partition the push again. FAILED_PRECONDITION,
  // INVALID_ARGUMENT: the shard can never accept the push.
  StatusOr<PushVerdict> Check(const PushHead& head) const;
  // Checks the step and the learning rate of the push.
  Status CheckStep(const PushHead& head) const;

  // Sync: returns whether the step is complete with this push.
  bool CompletesStep(const PushHead& head) const;
  // Sync: if the push does not complete the step, copies values that are still in the received
  // message. Admit may not have copied the values, because the state of the step can change after
  // Admit.
  Status OwnValuesIfStepWaits(const PushHead& head, PushTicket& ticket) const;

  // ---- The learning rate of a step (sync); all trainers must send the same rate -----------------
  void OnAccepted(const PushHead& head);
  // Drops the rate of the step if the older incarnation of `trainer` was the first to send the
  // rate.
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
  // previous owner of its rows, accepted the push before.
  StatusOr<PushVerdict> CheckSequence(const PushHead& head) const;
  // Checks whether the shard can accept the push now. OUT_OF_RANGE, or an error of the log: the
  // sender must retry the push later.
  Status CheckTime(const PushHead& head) const;
  Status CheckRate(const PushHead& head) const;

  const ShardState& state_;
  const PushReplay& replay_;
  const BucketMigrations& migrations_;
  const GlobalSnapshotHold& hold_;
  std::optional<StepRate> step_rate_;
};

}  // namespace tandem::pserver
