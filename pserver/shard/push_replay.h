// Replay of logged pushes for which trainers keep the values (durability=replayable). The log has
// only the order of these pushes. After a restart, a push waits until its trainer has sent the
// values again, and so do all changes after it. The resulting state is therefore bit-identical to
// the state before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "pserver/shard/replay_queue.h"
#include "pserver/shard/shard_state.h"

namespace tandem::pserver {

// The owner makes each change from Next, and calls Finish when there is none. Reads the state, and
// drops gathered gradients of lost pushes. Not thread-safe (the shard's lock guards it).
class PushReplay {
 public:
  // Must outlive it.
  explicit PushReplay(ShardState& state) : state_(state) {}

  bool empty() const { return queue_.empty(); }        // all logged changes are made
  size_t missing() const { return queue_.missing(); }  // pushes whose values are missing
  // Number of the last change that is made or waits.
  uint64_t last_number() const;
  // Newest incarnation of the trainer in the log; 0: none.
  uint64_t incarnation(int trainer) const;

  // DATA_LOSS: the entry does not follow the last one. `lost`: its values cannot be sent again.
  Status Add(LogEntry entry, bool lost);
  // Whether the values of this push of the served job are missing.
  bool Misses(const PushHead& head) const;
  // Returns the number of the push in the log. As ReplayQueue::Take.
  StatusOr<uint64_t> Supply(const PushHead& head, std::vector<Buffer> values);
  // The missing values of incarnations before this one are lost.
  void Lose(int trainer, uint64_t before_incarnation) { queue_.Lose(trainer, before_incarnation); }
  // The next change to make; nullopt: its values are missing, or there is none.
  std::optional<ReplayQueue::Change> Next() { return queue_.Next(); }

  // OK, or UNAVAILABLE: the trainers that must send values again.
  Status CheckComplete() const;
  // As CheckComplete, but DATA_LOSS if the caller itself must send values again.
  Status CheckComplete(const CallerId& caller) const;

  // Sync: the push for `step` is lost, and nothing of its trainer follows after it, except the end
  // of this incarnation.
  void OnLostPush(const PushHead& head);
  void OnReplaced(int trainer) { lost_steps_.erase(trainer); }
  // All changes that can be made now are made. Returns whether a checkpoint should be made soon:
  // from here on, the pushes that trainers keep are no longer needed. ABORTED: the job cannot go
  // on, because values of a complete step are lost.
  StatusOr<bool> Finish();
  // The reason `why` the replay failed, or the loss that caused it.
  Status Failure(const Status& why) const;
  // The state is replaced: no change waits.
  void Reset();

 private:
  // Drops lost parts of an incomplete step. Returns false if that is impossible.
  bool ForgetLostSteps();

  ShardState& state_;
  ReplayQueue queue_;
  std::map<int, uint64_t> incarnations_;  // by trainer: newest in the log
  bool has_waited_ = false;               // values were missing since the start
  // Sync: by trainer, the step for which its pushes are lost.
  std::map<int, uint64_t> lost_steps_;
};

}  // namespace tandem::pserver
