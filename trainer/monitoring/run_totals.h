// The progress and the speed of a job: sums over the runs of steps of this process.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "kernels/exec/comm.h"

namespace tandem::trainer {

// Sums the steps and times of this process. Not thread-safe.
class RunTotals {
 public:
  // The increase of the two sums since the previous call of SetTimes.
  struct Added {
    double data_wait = 0;
    exec::CommTimes comm;
  };

  // Begins at time `now`, before step `first_step` of the job, which has `steps_total` steps (0: no
  // last step). Keeps the sums from before this call.
  void Begin(int64_t first_step, int64_t steps_total, int64_t samples_per_step, Time now);
  // Adds a run of `steps` steps, which took `seconds`. `last`: the last step of the run.
  void AddRun(int64_t last, int64_t steps, double seconds);
  // Sets the sums since the session began: seconds of waiting for data, and times of communication.
  // Returns the increase of the sums since the previous call.
  Added SetTimes(double data_wait, const exec::CommTimes& comm);

  int64_t steps_done() const { return steps_done_; }  // number of the job's steps that are done
  double SamplesPerSecond() const;  // mean speed of this process's steps; 0: no step was done
  // Returns the share of the time in which this process waited for data, from 0 to 1. Negative: no
  // step was done.
  double DataWaitShare() const;
  // Returns an estimate of the time for the remaining steps, from the speed since Begin, for
  // example "1:02:03". "unknown": there is no estimate.
  std::string Remaining(Time now) const;

 private:
  int64_t steps_total_ = 0, samples_per_step_ = 0;
  int64_t steps_done_ = 0;
  int64_t steps_here_ = 0;  // number of steps that this process has done
  double seconds_ = 0, data_wait_ = 0;
  exec::CommTimes comm_;
  Time begin_{};
};

}  // namespace tandem::trainer
