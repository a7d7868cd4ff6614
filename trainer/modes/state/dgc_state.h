// The per-rank state of deep gradient compression, and its changes in each step
// (kernels/graph/distribute/dgc.h). A checkpoint contains the sum of each state variable over the
// ranks. Therefore no unsent value is lost, any number of ranks can resume, and the velocity equals
// the velocity of the momentum optimizer.
#pragma once

#include <string>
#include <vector>

#include "collective/communicator.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/distribute/dgc.h"
#include "trainer/files/safetensors.h"

namespace tandem::trainer {

// Sets the variables of deep gradient compression in a rank's scope. Not thread-safe.
class DgcState {
 public:
  // `slots`: the names that AppendCompressed returned.
  DgcState(graph::DgcRule rule, std::vector<std::string> slots)
      : rule_(std::move(rule)), slots_(std::move(slots)) {}

  // Sets the compression variables (begin, selection, sparsity) for a step. The caller must call
  // BeginStep before each step.
  Status BeginStep(exec::Scope& scope, int64_t step);
  // Divides the slots of a checkpoint of step `step` by the number of ranks, so that each rank has
  // an equal part. Every rank must have the checkpoint in its scope.
  Status Split(exec::Scope& scope, int64_t step, int ranks) const;
  // Replaces the slots in `state` by their sums over the ranks. A collective call: all ranks must
  // make the call. Does nothing before begin_step, while the slots are equal on all ranks.
  Status Sum(collective::Communicator& communicator, TensorMap* state, Time deadline) const;
  std::string TakeMessage();  // returns a log line if the sparsity changed, otherwise ""

 private:
  bool selected() const { return step_ >= rule_.begin_step; }

  const graph::DgcRule rule_;
  const std::vector<std::string> slots_;
  int64_t step_ = -1;  // the step of the last BeginStep
  float sparsity_ = 0, told_ = 0;
};

}  // namespace tandem::trainer
