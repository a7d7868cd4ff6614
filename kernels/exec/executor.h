// Runs a plan: in program order, on the calling thread. A step allocates nothing, looks nothing up
// and compares no strings, so a small model's step costs microseconds.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "kernels/exec/plan.h"

namespace tandem {

// Not thread-safe.
class Executor {
 public:
  explicit Executor(Plan& plan) : plan_(plan) {}  // Not owned; must outlive this.

  // Runs the whole plan `iterations` times. An error names operator, source and shapes; parameters
  // may then have been updated in part.
  Status Run(int iterations = 1);
  int64_t steps_run() const { return steps_run_; }

 private:
  Status RunOnce();
  void LeaveOut(int comm);
  Status Fail(const PlanStep& step, const Status& status);

  Plan& plan_;
  int in_flight_ = -1;  // communications 0..in_flight_ of this step were started
  int64_t steps_run_ = 0;
};

}  // namespace tandem
