// The checks that a push passes before a shard accepts it, in their order: values that a replay
// waits for, sequence number, ownership generation, held step, hold for a global snapshot, room in
// the log, step.
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

// A push is checked twice, because its values are copied without the lock: Admit, then Recheck.
// The gate changes nothing but the learning rate of the step. Not thread-safe (the shard's lock
// guards it).
class PushGate {
 public:
  // All must outlive it.
  PushGate(const ShardState& state, const PushReplay& replay, const BucketMigrations& migrations,
           const GlobalSnapshotHold& hold)
      : state_(state), replay_(replay), migrations_(migrations), hold_(hold) {}

  // Checks everything except the caller and the values, and returns memory for the values.
  // `in_place`: as in Shard::AdmitPush.
  StatusOr<PushTicket> Admit(const PushHead& head, std::span<const void* const> in_place) const;
  // Checks an admitted push again: the same push, a newer incarnation, a move or a snapshot may
  // have come meanwhile. Brings the ticket's verdict and slices up to date.
  Status Recheck(const PushHead& head, PushTicket& ticket) const;
  // Checks a push without values. OUT_OF_RANGE: the sender must send it again later, or divide it
  // again among the servers. FAILED_PRECONDITION and INVALID_ARGUMENT: it can never be accepted.
  StatusOr<PushVerdict> Check(const PushHead& head) const;
  // The part of Check about the step and its learning rate.
  Status CheckStep(const PushHead& head) const;

  // Whether the step (sync) is complete with this push.
  bool CompletesStep(const PushHead& head) const;
  // Copies values in the message if the step waits for others. This may be necessary only since the
  // push was admitted.
  Status OwnValuesIfStepWaits(const PushHead& head, PushTicket& ticket) const;

  // ---- The learning rate of a step (sync): all trainers send the same
  // -----------------------------
  void OnAccepted(const PushHead& head);
  // The rate of this step may have been set by the older incarnation of the trainer.
  void OnReplaced(int trainer);
  // REQUIRES: a push of the step was accepted.
  float step_rate() const;
  void OnStepEnded() { step_rate_.reset(); }

 private:
  struct StepRate {
    int trainer = 0;  // which sent it first
    float learning_rate = 0;
  };
  // Seen before: by this server, or by the server that owned the rows before.
  StatusOr<PushVerdict> CheckSequence(const PushHead& head) const;
  // Now is not the time for this push: it must be sent again later.
  Status CheckTime(const PushHead& head) const;
  Status CheckRate(const PushHead& head) const;

  const ShardState& state_;
  const PushReplay& replay_;
  const BucketMigrations& migrations_;
  const GlobalSnapshotHold& hold_;
  std::optional<StepRate> step_rate_;
};

}  // namespace tandem::pserver
