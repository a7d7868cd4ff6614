// Who looks on while the steps of a job run: at most one of a check for NaN (check_nan_inf), a
// profile of some steps (profile), and what each operator took (benchmark).
#pragma once

#include <memory>
#include <string>

#include "kernels/exec/nan_check.h"
#include "trainer/monitoring/op_benchmark.h"
#include "trainer/monitoring/step_profile.h"

namespace tandem {

class JobConfig;

// One thread.
class StepInstrumentation {
 public:
  StepInstrumentation() = default;  // nobody
  // `place` with the job's profile.dir, resolved. INVALID_ARGUMENT when the job asks for two.
  // `backend`, that of the plan, must outlive it.
  static StatusOr<StepInstrumentation> Make(const JobConfig& config, ProfilePlace place,
                                            const Plan& plan, const Backend& backend);

  // For step `step` of this run (from 0): lets `executor` be watched.
  void Observe(int64_t step, Executor& executor);
  // For spans of the trainer's own; nullptr: the running step is not profiled.
  Profiler* profiler() { return profiler_; }
  // Steps are to be run one at a time.
  bool each_step() const { return nan_check_ || profile_ || benchmark_; }
  // Behind step `step`, the last of the run or not: what to tell the user, "" when nothing.
  StatusOr<std::string> After(int64_t step, bool last);

 private:
  std::unique_ptr<NanCheck> nan_check_;
  std::unique_ptr<StepProfile> profile_;
  std::unique_ptr<OpBenchmark> benchmark_;
  Profiler* profiler_ = nullptr;
};

}  // namespace tandem
