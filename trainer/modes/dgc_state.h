// What deep gradient compression keeps on each rank, and what each step of it does
// (kernels/graph/passes/dgc.h). Checkpoints hold the sums over the ranks: nothing that was not sent
// is lost, any number of ranks goes on from one, and the velocity is that of momentum.
#pragma once

#include <string>
#include <vector>

#include "collective/communicator.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/passes/dgc.h"
#include "trainer/files/safetensors.h"

namespace tandem::trainer {

// One thread.
class DgcState {
 public:
  // `slots`: those of AppendCompressed.
  DgcState(DgcRule rule, std::vector<std::string> slots)
      : rule_(std::move(rule)), slots_(std::move(slots)) {}

  // Before each step: sets its states.
  Status BeginStep(Scope& scope, int64_t step);
  // Every rank has in its scope what a checkpoint of step `step` held: it takes its part.
  Status Split(Scope& scope, int64_t step, int ranks) const;
  // Called by all ranks together: the slots in `state` become the sums over the ranks.
  Status Sum(collective::Communicator& communicator, TensorMap* state, Time deadline) const;
  // A line where the sparsity has changed since it was last asked for; "" where not.
  std::string News();

 private:
  bool selected() const { return step_ >= rule_.begin_step; }

  const DgcRule rule_;
  const std::vector<std::string> slots_;
  int64_t step_ = -1;  // the newest
  float sparsity_ = 0, told_ = 0;
};

}  // namespace tandem::trainer
