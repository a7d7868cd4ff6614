// Finds trainers that no longer call: lost ones, for which others no longer wait, and unresponsive
// ones, for which others wait.
#pragma once

#include <vector>

#include "pserver/shard/shard_state.h"

namespace tandem::pserver {

// `awaited`: trainers for which calls wait (WaitingCalls::Awaited). Changes only which trainers are
// lost. Not thread-safe (the shard's lock guards it).
class TrainerTimeouts {
 public:
  // Must outlive it.
  explicit TrainerTimeouts(ShardState& state) : state_(state) {}

  // Declares trainers lost that made no call for ShardConfig::lost_after. Returns them. In sync
  // mode a step needs every trainer, so none is lost and waiting calls fail instead.
  std::vector<int> LoseSilent(Time now);
  // The awaited trainers that are unresponsive.
  std::vector<int> Unresponsive(Time now, const std::vector<int>& awaited) const;
  // OK if `unresponsive` is empty; otherwise ABORTED: its first trainer is lost to those who wait.
  Status CheckResponsive(Time now, const std::vector<int>& unresponsive) const;
  // on_silent was called for the unresponsive trainers.
  void OnTold(Time now) { told_ = now; }
  // Time::max(): no trainer can be lost. `calls`: earliest deadline of the waiting calls.
  Time NextDeadline(Time calls, const std::vector<int>& awaited) const;

 private:
  // Only a server that trainers regularly call can declare them lost (pserver 0 has the barriers).
  bool LosesTrainers() const;

  ShardState& state_;
  Time told_ = Time::min();  // last OnTold
};

}  // namespace tandem::pserver
