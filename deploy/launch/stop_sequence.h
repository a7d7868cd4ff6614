// The order in which the processes of a job are stopped, as a state machine without processes.
#pragma once

#include "common/base/clock.h"

namespace tandem::deploy {

// running            until all trainers have ended with 0, or a failure, or a signal
// stopping trainers  they get SIGTERM (or the received signal), and SIGKILL after the grace time
// stopping pservers  they get SIGTERM once no trainer runs, and SIGKILL after the grace time
// A second signal kills all processes immediately. Not thread-safe. Does not read a clock.
class StopSequence {
 public:
  enum class Phase { kRunning, kStoppingTrainers, kStoppingPservers };
  enum class Request { kStop, kKill, kRepeated };

  explicit StopSequence(Duration grace);

  Phase phase() const { return phase_; }
  bool running() const { return phase_ == Phase::kRunning; }
  int signal() const { return signal_; }  // the first received signal; 0: none
  // No phase but running, or a signal: no process is started any more.
  bool stopping() const { return phase_ != Phase::kRunning || signal_ != 0; }

  // Takes a signal that asks the job to stop. kStop: the first one; the caller begins to stop the
  // trainers. kKill: all processes are due now. kRepeated: the same request arrived twice.
  Request TakeSignal(int signal, Time now);
  void StopTrainers(Time now);
  // REQUIRES: the pservers are not being stopped yet.
  void StopPservers(Time now);

  // When the processes of this phase are killed; Time::max(): never.
  Time kill_at() const { return kill_at_; }
  // Returns true once, after kill_at().
  bool TakeKill(Time now);
  // Whether a kill is for the pservers too, and not only for the trainers.
  bool kills_pservers() const { return kill_now_ || phase_ == Phase::kStoppingPservers; }
  // Whether a second signal asked for an immediate end.
  bool kill_now() const { return kill_now_; }

 private:
  const Duration grace_;
  Phase phase_ = Phase::kRunning;
  Time kill_at_ = Time::max();
  int signal_ = 0;
  Time signalled_at_{};
  bool kill_now_ = false;
};

}  // namespace tandem::deploy
