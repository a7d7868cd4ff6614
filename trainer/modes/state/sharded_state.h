// The state that only some ranks store: optimizer slots on the owner of their parameter
// (reduce_strategy Reduce, sharding), sharded parameters, and the state of one pipeline stage. A
// checkpoint contains the complete state. Therefore a job in any mode, with any number of ranks,
// can resume from the checkpoint.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::trainer {

class ShardedState {
 public:
  // Describes the slots of an optimizer for `grads`. Rank owners[i] stores the slots of grads[i].
  // In each group of `group` ranks every slot has one owner. The values of a slot are equal in all
  // groups.
  static StatusOr<ShardedState> Make(const graph::Program& program,
                                     const graph::OptimizerSpec& optimizer,
                                     const std::vector<graph::ParamGrad>& grads,
                                     const std::vector<int>& owners, int group);

  // Describes the sharded parameters. `owners`: the owner of each parameter within a group of
  // `group` ranks.
  static ShardedState OfParams(const graph::Program& program,
                               const std::map<std::string, int>& owners, int group);

  // Adds one variable, whose values are on rank `owner`.
  void Add(const std::string& var, const TensorDesc& desc, int owner) {
    slots_.push_back({var, desc, owner});
  }

  // Sets runs of ranks, which replace the groups. A run is `same` consecutive ranks with the same
  // state. The first rank of a run is the owner.
  void SetRuns(int same) { runs_ = same; }

  bool empty() const { return slots_.empty(); }
  bool Holds(const std::string& var) const;

  // Scatter and Gather are collective calls, which transfer each variable in one broadcast. Scatter
  // copies the variables in rank 0's `state` to the scopes of their owners. Variables that `state`
  // lacks are unchanged.
  Status Scatter(collective::Communicator& communicator, const TensorMap& state, exec::Scope& scope,
                 Time deadline) const;
  // Gather copies the variables of all owners to rank 0's `state`, in memory of `host`. Other ranks
  // temporarily allocate a copy of one variable at a time.
  Status Gather(collective::Communicator& communicator, const exec::Scope& scope, Device& host,
                TensorMap* state, Time deadline) const;

 private:
  struct Slot {
    std::string name;
    TensorDesc desc;
    int owner = 0;
  };
  // Returns the number of the owner that has the same variables as `rank`.
  int OwnerFor(int rank) const { return runs_ > 0 ? rank - rank % runs_ : rank % group_; }

  std::vector<Slot> slots_;
  int group_ = 1, runs_ = 0;
};

}  // namespace tandem::trainer
