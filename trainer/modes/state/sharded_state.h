// State that is not on all ranks: optimizer slots on their parameter's owner (reduce_strategy
// Reduce, sharding), sharded parameters, and the state of one pipeline stage. Checkpoints contain
// it in full, so any mode and any number of ranks can resume from one.
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
  // Describes the slots of an optimizer for `grads`; rank owners[i] holds the slots of grads[i].
  // Each group of `group` ranks has one owner per slot, with the same values in all groups.
  static StatusOr<ShardedState> Make(const Program& program, const OptimizerSpec& optimizer,
                                     const std::vector<ParamGrad>& grads,
                                     const std::vector<int>& owners, int group);

  // Describes the parameters themselves.
  static ShardedState OfParams(const Program& program, const std::map<std::string, int>& owners,
                               int group);

  // Adds one variable.
  void Add(const std::string& var, const TensorDesc& desc, int owner) {
    slots_.push_back({var, desc, owner});
  }

  // Replaces the groups: each run of `same` consecutive ranks has the same state, and its first
  // rank is the owner.
  void SetRuns(int same) { runs_ = same; }

  bool empty() const { return slots_.empty(); }
  bool Holds(const std::string& var) const;

  // Both methods below are collective and move each slot in one broadcast.
  // Copies the slots in rank 0's `state` to the owners' scopes. Other slots are unchanged.
  Status Scatter(collective::Communicator& communicator, const TensorMap& state, Scope& scope,
                 Time deadline) const;
  // Copies all slots to rank 0's `state`, in memory of `host`. Other ranks hold one slot at a time.
  Status Gather(collective::Communicator& communicator, const Scope& scope, Device& host,
                TensorMap* state, Time deadline) const;

 private:
  struct Slot {
    std::string name;
    TensorDesc desc;
    int owner = 0;
  };
  // Returns the owner among the ranks with the same state as `rank`.
  int OwnerFor(int rank) const { return runs_ > 0 ? rank - rank % runs_ : rank % group_; }

  std::vector<Slot> slots_;
  int group_ = 1, runs_ = 0;
};

}  // namespace tandem::trainer
