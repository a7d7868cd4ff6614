// Optimizer slots that lie on their parameter's owner alone (reduce_strategy Reduce). Checkpoints
// hold them whole, so any mode and number of ranks can go on from one.
#pragma once

#include <string>
#include <vector>

#include "collective/communicator.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/program.h"
#include "trainer/safetensors.h"

namespace tandem {

class SpreadState {
 public:
  // The slots of an optimizer for `grads`, of which owners[i] keeps those of grads[i].
  static StatusOr<SpreadState> Make(const Program& program, const OptimizerSpec& optimizer,
                                    const std::vector<ParamGrad>& grads,
                                    const std::vector<int>& owners);

  bool empty() const { return slots_.empty(); }
  bool Holds(const std::string& var) const;

  // Both are called by all ranks together and move each slot in one broadcast.
  // What rank 0's `state` holds goes to the owners' scopes; other slots stay as they are.
  Status Scatter(Communicator& communicator, const TensorMap& state, Scope& scope,
                 Time deadline) const;
  // Every rank's `state` gets all slots, in memory of `host`.
  Status Gather(Communicator& communicator, const Scope& scope, Device& host, TensorMap* state,
                Time deadline) const;

 private:
  struct Slot {
    std::string name;
    TensorDesc desc;
    int owner = 0;
  };
  std::vector<Slot> slots_;
};

}  // namespace tandem
