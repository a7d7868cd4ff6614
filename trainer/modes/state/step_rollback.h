// Restores the state of a training step that failed because a peer was lost, so that the step can
// be repeated.
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

// Keeps the persistent state from before a step. It copies only what the step changes before it is
// certain to complete (kernels/exec/commit.h), which is little in most programs. Not thread-safe.
class StepRollback {
 public:
  // `scope` is that of `program`, contains every persistent variable, and must outlive this object.
  // The plan of `program` must have PlanOptions::commit.
  // Steps are undone `period` at a time: if gradients are accumulated over several steps, the sums
  // exist on each rank only. If a period has several `runs` of the program, all variables that they
  // write are copied.
  static StatusOr<StepRollback> Make(const Program& program, Scope& scope, int64_t period,
                                     int64_t runs, Device& host);

  // Call before each step. Steps inside a period copy nothing.
  Status BeforeStep(int64_t step);
  // The step that the saved state precedes; -1: no usable state yet.
  int64_t step() const { return step_; }
  // Undoes the changes since BeforeStep(step()) that were not completed.
  Status Restore();
  // Whether `var` is local to this rank: its value depends only on this rank's samples (running
  // statistics; Commit::own).
  bool Own(const std::string& var) const { return own_.contains(var); }

 private:
  explicit StepRollback(Scope& scope, int64_t period) : scope_(&scope), period_(period) {}

  Scope* scope_;
  int64_t period_;
  int64_t step_ = -1;
  TensorMap kept_;
  std::set<std::string> own_;
};

}  // namespace tandem::trainer
