// What a trainer goes back to when a step was broken off because a peer was lost.
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

// The lasting state as it was before a step, kept by copying what the step changes before it is
// certain to be done (kernels/exec/commit.h): little, in most programs. One thread.
class StepRollback {
 public:
  // `scope` is that of `program`, with every lasting variable, and must outlive this. Steps are
  // undone `period` at a time: where gradients are added up over several steps, the sums are each
  // rank's alone. Of a period that takes several `runs` of the program everything is kept that
  // they write. The plan of `program` has PlanOptions::commit.
  static StatusOr<StepRollback> Make(const Program& program, Scope& scope, int64_t period,
                                     int64_t runs, Device& host);

  // Before each step; steps inside a period keep nothing.
  Status BeforeStep(int64_t step);
  // The step that the state which was kept stands before; -1: no state worth anything yet.
  int64_t step() const { return step_; }
  // Undoes what was done since BeforeStep(step()), where that was not done to its end.
  Status Restore();
  // Whether `var` is this rank's own: what a step makes of it follows from the rank's samples alone
  // (running statistics; Commit::own).
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
