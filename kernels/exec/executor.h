// Runs a plan: in program order, on the calling thread. A step allocates nothing, looks nothing up
// and compares no strings, so a small model's step costs microseconds.
#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "kernels/exec/plan.h"

namespace tandem {

// Sees the steps of a plan as they are run, on the executor's thread.
class ExecObserver {
 public:
  virtual ~ExecObserver() = default;
  // `step` has run from `begin` to `end` (a communication: has been started, or waited for), in run
  // `run` of the executor. Steps that a condition leaves out are not seen. An error ends the run as
  // if the step had failed.
  virtual Status OnStep(const PlanStep& step, int64_t run, Time begin, Time end) = 0;
};

// Not thread-safe.
class Executor {
 public:
  explicit Executor(Plan& plan) : plan_(plan) {}  // Not owned; must outlive this.

  // Runs the whole plan `iterations` times. An error names operator, source and shapes; parameters
  // may then have been updated in part.
  Status Run(int iterations = 1);
  int64_t steps_run() const { return steps_run_; }

  // From the next run on; nullptr: nobody looks on, which costs nothing. Not owned.
  void SetObserver(ExecObserver* observer) { observer_ = observer; }

 private:
  template <bool kObserved>
  Status RunOnce();
  Status RunStep(PlanStep& step);
  void LeaveOut(int comm);
  Status Fail(const PlanStep& step, const Status& status);

  Plan& plan_;
  ExecObserver* observer_ = nullptr;
  int in_flight_ = -1;  // communications 0..in_flight_ of this step were started
  int64_t steps_run_ = 0;
};

}  // namespace tandem
