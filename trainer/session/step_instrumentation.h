// Observes the steps of a job. At most one observer runs: a check for NaN (check_nan_inf), a
// profile of some steps (profile), a measurement of each operator (benchmark), or a second
// computation of some steps (verify_replay).
#pragma once

#include <memory>
#include <string>

#include "kernels/exec/nan_check.h"
#include "kernels/exec/replay_check.h"
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
  // A plan, and what it was made with.
  struct Planned {
    exec::Plan& plan;
    const exec::Backend& backend;
    const exec::Scope& scope;
    const exec::PlanOptions& options;
  };
  // Makes the observer that the job requests. `place`: destination of profiles, with the resolved
  // profile.dir of the job. Plan, backend and scope of `planned` must outlive this object.
  // FAILED_PRECONDITION: as for ReplayCheck::Make.
  static StatusOr<StepInstrumentation> Make(const JobConfig& config, ProfilePlace place,
                                            const Planned& planned);

  // Attaches the observer to `executor` for step number `step` of this session (from 0).
  void Observe(int64_t step, exec::Executor& executor);
  // Attaches the second computation to `executor`, or detaches it, for the next iteration, which is
  // one of step `step` of the job (from 0). The caller must have set the data of the iteration.
  void BeforeIteration(int64_t step, exec::Executor& executor);
  // Returns the profiler, to which the trainer adds its own spans; nullptr: the current step is not
  // profiled.
  exec::Profiler* profiler() { return profiler_; }
  // Returns whether each step is observed. In this case the steps must run one at a time.
  bool each_step() const { return nan_check_ || profile_ || benchmark_; }
  // Returns a line about the observation for the user; "": there is none.
  const std::string& note() const { return note_; }
  // Completes the observation of step `step`. The caller must call After after each step. `last`:
  // the step is the last one of the session. Returns a message for the user; "": there is no
  // message.
  StatusOr<std::string> After(int64_t step, bool last);

 private:
  std::unique_ptr<exec::NanCheck> nan_check_;
  std::unique_ptr<StepProfile> profile_;
  std::unique_ptr<OpBenchmark> benchmark_;
  std::unique_ptr<exec::ReplayCheck> replay_;
  int64_t replay_every_ = 0;  // number of steps from one second computation to the next
  exec::Profiler* profiler_ = nullptr;
  std::string note_;
};

}  // namespace tandem::trainer
