// How far a job is, and how fast: sums over the runs of steps of this process.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/clock.h"
#include "kernels/exec/comm.h"

namespace tandem::trainer {

// Not thread-safe.
class RunTotals {
 public:
  // Differences of times that are known as sums since the session began.
  struct Added {
    double data_wait = 0;
    CommTimes comm;
  };

  // Begins at time `now`, before step `first_step` of the job's `steps_total`. Earlier sums remain.
  void Begin(int64_t first_step, int64_t steps_total, int64_t samples_per_step, Time now);
  // Adds a run of `steps` steps up to step `last`, which took `seconds`.
  void AddRun(int64_t last, int64_t steps, double seconds);
  // The times since the session began. Returns the difference to the previous call.
  Added SetTimes(double data_wait, const CommTimes& comm);

  int64_t steps_done() const { return steps_done_; }  // steps of the job that are done
  double SamplesPerSecond() const;                    // 0: no step yet
  // The share of the time in which this process waited for data; negative: no step yet.
  double DataWaitShare() const;
  // The time that the remaining steps take at the speed since Begin: "1:02:03", or "unknown".
  std::string Remaining(Time now) const;

 private:
  int64_t steps_total_ = 0, samples_per_step_ = 0;
  int64_t steps_done_ = 0;
  int64_t steps_here_ = 0;  // steps that this process has done
  double seconds_ = 0, data_wait_ = 0;
  CommTimes comm_;
  Time begin_{};
};

}  // namespace tandem::trainer
