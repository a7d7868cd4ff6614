// Restores the state from before a training step that failed because a peer was lost, so that the
// ranks can repeat the step.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "common/base/status.h"
#include "common/tensor/device.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::trainer {

// Saves the persistent state before a step. Copies only the variables that the step changes before
// its commit point (kernels/exec/commit.h). Most programs have few such variables. Not thread-safe.
class StepRollback {
 public:
  // `scope`: the scope of `program`; it contains every persistent variable and must outlive this
  // object. The plan of `program` must have PlanOptions::commit. `period`: number of steps that are
  // undone together. If ranks accumulate gradients over several steps, the period is longer than 1,
  // because each rank has only its own sums. `runs`: number of runs of the program in a period. If
  // `runs` is more than 1, StepRollback saves all persistent variables that the program writes.
  static StatusOr<StepRollback> Make(const graph::Program& program, exec::Scope& scope,
                                     int64_t period, int64_t runs, Device& host);

  // Saves the state. The caller must call BeforeStep before each step. Saves nothing at a step that
  // does not begin a period.
  Status BeforeStep(int64_t step);
  // Returns the step before which the state was saved; -1: no state was saved.
  int64_t step() const { return step_; }
  // Restores the state of the last save.
  Status Restore();
  // Returns whether `var` is local to this rank. The value of a local variable, such as a running
  // statistic, depends only on this rank's samples (Commit::own).
  bool Own(const std::string& var) const { return own_.contains(var); }

 private:
  explicit StepRollback(exec::Scope& scope, int64_t period) : scope_(&scope), period_(period) {}

  exec::Scope* scope_;
  int64_t period_;
  int64_t step_ = -1;
  TensorMap kept_;
  std::set<std::string> own_;
};

}  // namespace tandem::trainer
