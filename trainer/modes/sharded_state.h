// State that not all ranks have: optimizer slots on their parameter's owner (reduce_strategy
// Reduce, sharding), parameters likewise (sharding), and whatever belongs to a section of a
// pipeline. Checkpoints hold it whole, so any mode and number of ranks can go on from one.
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
  // The slots of an optimizer for `grads`, of which owners[i] keeps those of grads[i]. Of every
  // `group` ranks one is the owner; all have the same.
  static StatusOr<ShardedState> Make(const Program& program, const OptimizerSpec& optimizer,
                                     const std::vector<ParamGrad>& grads,
                                     const std::vector<int>& owners, int group);

  // The parameters themselves.
  static ShardedState OfParams(const Program& program, const std::map<std::string, int>& owners,
                               int group);

  // One more variable.
  void Add(const std::string& var, const TensorDesc& desc, int owner) {
    slots_.push_back({var, desc, owner});
  }

  // Instead of that: every `same` ranks, one behind the other, have the same, and the first of them
  // is the owner.
  void SetRuns(int same) { runs_ = same; }

  bool empty() const { return slots_.empty(); }
  bool Holds(const std::string& var) const;

  // Both are called by all ranks together and move each slot in one broadcast.
  // What rank 0's `state` holds goes to the owners' scopes; other slots stay as they are.
  Status Scatter(collective::Communicator& communicator, const TensorMap& state, Scope& scope,
                 Time deadline) const;
  // Rank 0's `state` gets all slots, in memory of `host`; others hold one at a time.
  Status Gather(collective::Communicator& communicator, const Scope& scope, Device& host,
                TensorMap* state, Time deadline) const;

 private:
  struct Slot {
    std::string name;
    TensorDesc desc;
    int owner = 0;
  };
  // Of the ranks that have what `rank` has, the owner.
  int OwnerFor(int rank) const { return runs_ > 0 ? rank - rank % runs_ : rank % group_; }

  std::vector<Slot> slots_;
  int group_ = 1, runs_ = 0;
};

}  // namespace tandem::trainer
