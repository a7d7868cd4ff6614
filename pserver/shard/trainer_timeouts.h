// Finds trainers that no longer call. Other trainers no longer wait for a lost trainer, but still
// wait for an unresponsive one.
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

  // Declares trainers lost that made no call for ShardConfig::lost_after. Returns the trainers that
  // it declared lost. In sync mode no trainer is lost, because a step needs every trainer. Waiting
  // calls fail instead.
  std::vector<int> LoseSilent(Time now);
  // Returns the trainers of `awaited` that are unresponsive.
  std::vector<int> Unresponsive(Time now, const std::vector<int>& awaited) const;
  // Returns OK if `unresponsive` is empty. ABORTED: the error for waiting calls, which names the
  // first trainer of `unresponsive`.
  Status CheckResponsive(Time now, const std::vector<int>& unresponsive) const;
  // Records that on_silent was called for the unresponsive trainers.
  void OnTold(Time now) { told_ = now; }
  // Earliest time at which a trainer can become lost or unresponsive, or `calls` if it is earlier.
  // `calls`: earliest deadline of the waiting calls.
  Time NextDeadline(Time calls, const std::vector<int>& awaited) const;

 private:
  // Returns whether this server may declare trainers lost. A server may do so only if trainers call
  // it regularly (pserver 0 has the barriers).
  bool LosesTrainers() const;

  ShardState& state_;
  Time told_ = Time::min();  // time of the last OnTold
};

}  // namespace tandem::pserver
