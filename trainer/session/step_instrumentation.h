// Observes the steps of a job. At most one observer runs: a check for NaN (check_nan_inf), a
// profile of some steps (profile), or a measurement of each operator (benchmark).
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

// The observer of a job's steps. Not thread-safe.
class StepInstrumentation {
 public:
  StepInstrumentation() = default;  // makes an object that observes nothing
  // Makes the observer that the job requests. `place`: destination of profiles, with the resolved
  // profile.dir of the job. `backend`: the backend of the plan; must outlive this object.
  // INVALID_ARGUMENT: the job requests two observers.
  static StatusOr<StepInstrumentation> Make(const JobConfig& config, ProfilePlace place,
                                            const exec::Plan& plan, const exec::Backend& backend);

  // Attaches the observer to `executor` for step number `step` of this session (from 0).
  void Observe(int64_t step, exec::Executor& executor);
  // Returns the profiler, to which the trainer adds its own spans; nullptr: the current step is not
  // profiled.
  exec::Profiler* profiler() { return profiler_; }
  // Returns whether each step is observed. In this case the steps must run one at a time.
  bool each_step() const { return nan_check_ || profile_ || benchmark_; }
  // Completes the observation of step `step`. The caller must call After after each step. `last`:
  // the step is the last one of the session. Returns a message for the user; "": there is no
  // message.
  StatusOr<std::string> After(int64_t step, bool last);

 private:
  std::unique_ptr<exec::NanCheck> nan_check_;
  std::unique_ptr<StepProfile> profile_;
  std::unique_ptr<OpBenchmark> benchmark_;
  exec::Profiler* profiler_ = nullptr;
};

}  // namespace tandem::trainer
