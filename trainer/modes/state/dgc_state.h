// The per-rank state of deep gradient compression, and its changes in each step
// (kernels/graph/distribute/dgc.h).
// Checkpoints contain the sums over the ranks. So no unsent value is lost, any number of ranks can
// resume, and the velocity equals that of momentum.
#pragma once

#include <string>
#include <vector>

#include "collective/communicator.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/distribute/dgc.h"
#include "trainer/files/safetensors.h"

namespace tandem::trainer {

// Not thread-safe.
class DgcState {
 public:
  // `slots`: the result of AppendCompressed.
  DgcState(DgcRule rule, std::vector<std::string> slots)
      : rule_(std::move(rule)), slots_(std::move(slots)) {}

  // Sets the states of a step. Call it before each step.
  Status BeginStep(Scope& scope, int64_t step);
  // Keeps this rank's part of a checkpoint. Every rank must have the checkpoint of step `step` in
  // its scope.
  Status Split(Scope& scope, int64_t step, int ranks) const;
  // Replaces the slots in `state` by their sums over the ranks. Collective: all ranks call it.
  Status Sum(collective::Communicator& communicator, TensorMap* state, Time deadline) const;
  // Returns a log line if the sparsity changed since the last call, else "".
  std::string TakeMessage();

 private:
  bool selected() const { return step_ >= rule_.begin_step; }

  const DgcRule rule_;
  const std::vector<std::string> slots_;
  int64_t step_ = -1;  // the latest step
  float sparsity_ = 0, told_ = 0;
};

}  // namespace tandem::trainer
