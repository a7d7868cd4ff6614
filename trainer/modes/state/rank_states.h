// The values of a checkpoint in jobs whose ranks have different parameters and optimizer states. A
// checkpoint contains the values of rank 0 under the names of the variables, and the values of rank
// R under NAME@rankR. Thus the job resumes with the same bits on all ranks.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::trainer {

class RankStates {
 public:
  // `common`: the states that are equal on all ranks.
  explicit RankStates(const std::vector<std::string>& common)
      : common_(common.begin(), common.end()) {}

  // Collective calls: all ranks must make them, with the same `program`. Errors: those of the
  // communicator, which must have host memory.
  //
  // Gather adds the values of all other ranks to rank 0's `state`, in memory of `host`.
  Status Gather(collective::Communicator& communicator, const graph::Program& program,
                const exec::Scope& scope, Device& host, TensorMap* state, Time deadline) const;
  // Scatter copies the values in rank 0's `state` to the scopes of their ranks. The scope of a rank
  // that `state` lacks is unchanged.
  Status Scatter(collective::Communicator& communicator, const graph::Program& program,
                 const TensorMap& state, exec::Scope& scope, Time deadline) const;

 private:
  // Returns the variables whose values differ between the ranks, in the program's order.
  std::vector<const graph::Var*> Differing(const graph::Program& program) const;

  const std::set<std::string> common_;
};

}  // namespace tandem::trainer
