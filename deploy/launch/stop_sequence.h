// The order in which the processes of a job are stopped, as a state machine that starts and kills
// no process itself.
#pragma once

#include "common/base/clock.h"

namespace tandem::deploy {

// The state machine of the end of a job. Its phases are:
// - running: until all trainers have ended with exit code 0, or a process fails, or a signal
//   arrives;
// - stopping trainers: trainers get SIGTERM (or the received signal), and SIGKILL after the grace
//   time;
// - stopping pservers: pservers get SIGTERM after all trainers have ended, and SIGKILL after the
//   grace time.
// A second signal kills all processes immediately. Not thread-safe. Does not read a clock.
class StopSequence {
 public:
  enum class Phase { kRunning, kStoppingTrainers, kStoppingPservers };
  enum class Request { kStop, kKill, kRepeated };

  explicit StopSequence(Duration grace);

  Phase phase() const { return phase_; }
  bool running() const { return phase_ == Phase::kRunning; }
  int signal() const { return signal_; }  // the first received signal; 0: no signal
  // Returns true if the phase is not "running" or a signal was received. In this case the caller
  // starts no process.
  bool stopping() const { return phase_ != Phase::kRunning || signal_ != 0; }

  // Handles a signal that requests the end of the job. kStop: this is the first signal, and the
  // caller must begin to stop the trainers. kKill: the caller must kill all processes now.
  // kRepeated: the signal repeats the first signal, and the caller does nothing.
  Request TakeSignal(int signal, Time now);
  void StopTrainers(Time now);
  // Begins the phase "stopping pservers". REQUIRES: this phase has not begun.
  void StopPservers(Time now);

  // Returns the time at which the processes of this phase must be killed. Time::max(): never.
  Time kill_at() const { return kill_at_; }
  // Returns true in the first call after the time kill_at(). The caller must then kill the
  // processes of this phase.
  bool TakeKill(Time now);
  // Returns whether the caller must kill pservers too, not only trainers.
  bool kills_pservers() const { return kill_now_ || phase_ == Phase::kStoppingPservers; }
  // Returns whether a second signal requested an immediate end.
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
