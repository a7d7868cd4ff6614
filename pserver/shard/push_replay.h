// Replay of logged pushes whose values the trainers keep (durability=replayable). The log has only
// the order of these pushes. After a restart, a push waits until its trainer has sent the values
// again. All later changes wait with it. The resulting state is therefore bit-identical to the
// state before the restart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "pserver/shard/log/replay_queue.h"
#include "pserver/shard/shard_state.h"

namespace tandem::pserver {

// The owner makes each change that Next returns, and calls Finish when Next returns none. Reads the
// state, and drops gathered gradients of lost pushes. Not thread-safe (the shard's lock guards it).
class PushReplay {
 public:
  // `state` must outlive this object.
  explicit PushReplay(ShardState& state) : state_(state) {}

  bool empty() const { return queue_.empty(); }        // true: all logged changes are made
  size_t missing() const { return queue_.missing(); }  // number of pushes whose values are missing
  // Number of the last change that was made or that waits.
  uint64_t last_number() const;
  // Newest incarnation of the trainer in the log; 0: none.
  uint64_t incarnation(int trainer) const;

  // Adds a logged change. `lost`: its values cannot be sent again. DATA_LOSS: its number does not
  // follow the last one.
  Status Add(LogEntry entry, bool lost);
  // Returns whether the push belongs to this job and its values are missing.
  bool Misses(const PushHead& head) const;
  // Adds the missing values of a push. Returns its number in the log. Errors: as ReplayQueue::Take.
  StatusOr<uint64_t> Supply(const PushHead& head, std::vector<Buffer> values);
  // Marks the missing values of incarnations before `before_incarnation` as lost.
  void Lose(int trainer, uint64_t before_incarnation) { queue_.Lose(trainer, before_incarnation); }
  // Returns the next change to make; nullopt: the values of the next change are missing, or all
  // changes are made.
  std::optional<ReplayQueue::Change> Next() { return queue_.Next(); }

  // OK if all changes of the log are made. UNAVAILABLE: changes lack the values of pushes; the
  // message names the trainers that must send these values again.
  Status CheckComplete() const;
  // Like CheckComplete(). DATA_LOSS: `caller` itself must send values again.
  Status CheckComplete(const CallerId& caller) const;

  // Sync: records that this push is lost. After the push, the log has no entry of the trainer
  // except the end of this incarnation.
  void OnLostPush(const PushHead& head);
  void OnReplaced(int trainer) { lost_steps_.erase(trainer); }
  // Call it when all changes that can be made now are made. Returns whether a checkpoint should be
  // made soon: with it, trainers no longer need the pushes that they keep. ABORTED: the job cannot
  // continue, because values of a complete step are lost.
  StatusOr<bool> Finish();
  // Returns the reason for a failed replay: the lost pushes if there are any, otherwise `why`.
  Status Failure(const Status& why) const;
  // Drops all waiting changes, because the state is replaced.
  void Reset();

 private:
  // Drops the gathered gradients of trainers with lost pushes. Returns false if that is impossible,
  // because the step is complete.
  bool ForgetLostSteps();

  ShardState& state_;
  ReplayQueue queue_;
  std::map<int, uint64_t> incarnations_;  // by trainer: newest incarnation in the log
  bool has_waited_ = false;               // true: a change has waited for values since the start
  // Sync: by trainer, the step for which the trainer's pushes are lost.
  std::map<int, uint64_t> lost_steps_;
};

}  // namespace tandem::pserver
