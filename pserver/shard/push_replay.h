// Replay of logged pushes whose values the trainers keep (durability=replayable). The log has only
// the order of these pushes. After a restart, a push waits until its trainer has retransmitted the
// values, and all later changes wait for the push. The resulting state is therefore bit-identical
// to the state before the restart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "pserver/shard/log/replay_queue.h"
#include "pserver/shard/shard_state.h"

namespace tandem::pserver {

// The owner applies each change that Next returns. When Next returns no change, the owner calls
// Finish. Reads the state, and drops gathered gradients of lost pushes. Not thread-safe (the
// shard's lock guards it).
class PushReplay {
 public:
  // `state` must outlive this object.
  explicit PushReplay(ShardState& state) : state_(state) {}

  bool empty() const { return queue_.empty(); }        // true: all logged changes are made
  size_t missing() const { return queue_.missing(); }  // number of pushes whose values are missing
  // Number of the newest change that was applied or that waits.
  uint64_t last_number() const;
  // Newest incarnation of the trainer in the log; 0: none.
  uint64_t incarnation(int trainer) const;

  // Adds a logged change. `lost`: its values cannot be retransmitted. DATA_LOSS: the number of the
  // change does not follow the last number.
  Status Add(LogEntry entry, bool lost);
  // Returns whether the push belongs to this job and its values are missing.
  bool Misses(const PushHead& head) const;
  // Adds the missing values of a push. Returns the log number of the push. Errors: those of
  // ReplayQueue::Take. REQUIRES: Misses(head).
  StatusOr<uint64_t> Supply(const PushHead& head, std::vector<Buffer> values);
  // Marks as lost the pushes of `trainer` whose values are missing and whose incarnation is below
  // `before_incarnation`.
  void Lose(int trainer, uint64_t before_incarnation) { queue_.Lose(trainer, before_incarnation); }
  // Returns the next change to apply; nullopt: the values of the next change are missing, or all
  // changes are applied.
  std::optional<ReplayQueue::Change> Next() { return queue_.Next(); }

  // OK: all changes of the log are applied. UNAVAILABLE: the values of some pushes are missing (the
  // message names the trainers that must retransmit values).
  Status CheckComplete() const;
  // Like CheckComplete(). DATA_LOSS: `caller` itself must retransmit values.
  Status CheckComplete(const CallerId& caller) const;

  // Sync: records that the values of this push are lost. In the log, only the end of this
  // incarnation follows the lost pushes of the trainer.
  void OnLostPush(const PushHead& head);
  void OnReplaced(int trainer) { lost_steps_.erase(trainer); }
  // Called when Next has returned nullopt. Returns whether a checkpoint should be made soon, so
  // that trainers can drop the pushes that they keep. ABORTED: the job cannot continue, because
  // values of a complete step are lost.
  StatusOr<bool> Finish();
  // Returns the error of a failed replay: an error about the lost pushes if there are any,
  // otherwise `why`.
  Status Failure(const Status& why) const;
  // Drops all waiting changes. Called when the state is replaced.
  void Reset();

 private:
  // Drops the gathered gradients of trainers with lost pushes. Returns false and drops nothing if
  // the step is complete, because its update contains the lost gradients.
  bool ForgetLostSteps();

  ShardState& state_;
  ReplayQueue queue_;
  std::map<int, uint64_t> incarnations_;  // by trainer: newest incarnation in the log
  bool has_waited_ = false;               // true: since the start, a change has waited for values
  // Sync: by trainer, the step for which the trainer's pushes are lost.
  std::map<int, uint64_t> lost_steps_;
};

}  // namespace tandem::pserver
