// Observes the steps of a job. At most one of these runs: a check for NaN (check_nan_inf), a
// profile of some steps (profile), the time of each operator (benchmark).
#pragma once

#include <memory>
#include <string>

#include "kernels/exec/nan_check.h"
#include "trainer/monitoring/op_benchmark.h"
#include "trainer/monitoring/step_profile.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// Not thread-safe.
class StepInstrumentation {
 public:
  StepInstrumentation() = default;  // observes nothing
  // `place` has the job's profile.dir, resolved. INVALID_ARGUMENT: the job asks for two observers.
  // `backend`, that of the plan, must outlive this object.
  static StatusOr<StepInstrumentation> Make(const JobConfig& config, ProfilePlace place,
                                            const Plan& plan, const Backend& backend);

  // Attaches to `executor` for step `step` of this run (from 0).
  void Observe(int64_t step, Executor& executor);
  // For additional spans of the trainer; nullptr: the running step is not profiled.
  Profiler* profiler() { return profiler_; }
  // Whether steps must run one at a time.
  bool each_step() const { return nan_check_ || profile_ || benchmark_; }
  // Called after step `step`; `last`: it is the last of the run. Returns a message for the user, or
  // "".
  StatusOr<std::string> After(int64_t step, bool last);

 private:
  std::unique_ptr<NanCheck> nan_check_;
  std::unique_ptr<StepProfile> profile_;
  std::unique_ptr<OpBenchmark> benchmark_;
  Profiler* profiler_ = nullptr;
};

}  // namespace tandem::trainer
