// Finds trainers that make no more calls. Other trainers do not wait for a lost trainer, but still
// wait for an unresponsive trainer.
#pragma once

#include <vector>

#include "pserver/shard/shard_state.h"

namespace tandem::pserver {

// Finds lost and unresponsive trainers. Changes only the set of lost trainers. `awaited`: the
// trainers for which calls wait (WaitingCalls::Awaited). Not thread-safe (the shard's lock guards
// it).
class TrainerTimeouts {
 public:
  // `state` must outlive this object.
  explicit TrainerTimeouts(ShardState& state) : state_(state) {}

  // Marks trainers as lost if they made no call for ShardConfig::lost_after, and returns these
  // trainers. In sync mode, no trainer becomes lost, because a step needs every trainer; instead,
  // calls that wait for the trainer fail.
  std::vector<int> LoseSilent(Time now);
  // Returns the trainers of `awaited` that are unresponsive.
  std::vector<int> Unresponsive(Time now, const std::vector<int>& awaited) const;
  // Returns OK if `unresponsive` is empty. ABORTED: a trainer is unresponsive (the message names
  // the first); waiting calls fail with this error.
  Status CheckResponsive(Time now, const std::vector<int>& unresponsive) const;
  // Records that on_silent was called for the unresponsive trainers.
  void OnTold(Time now) { told_ = now; }
  // Returns the earliest time at which a trainer can become lost or unresponsive, or `calls` if
  // `calls` is earlier. `calls`: earliest deadline of the waiting calls.
  Time NextDeadline(Time calls, const std::vector<int>& awaited) const;

 private:
  // Returns whether this server may mark trainers as lost. Only a server that every trainer calls
  // regularly may do so: a server with slices or served rows, or pserver 0, which has the barriers.
  bool LosesTrainers() const;

  ShardState& state_;
  Time told_ = Time::min();  // time of the last OnTold
};

}  // namespace tandem::pserver
