// The value Reduce of the knob reduce_strategy: every parameter has one owner, the rank that
// updates it. Only the owner gets the sum of the gradients and has the optimizer slots. The owner
// then broadcasts the updated parameter. Source: Paddle 1.6 multi_devices_graph_pass
// (ReduceSSAGraphBuilder). Because slots are spread over the ranks, this is stage 1 of ZeRO
// (Rajbhandari et al., SC 2020).
#pragma once

#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem::graph {

// Returns the owners: entry i is the owner of grads[i]. Each parameter in turn goes to the rank
// that has the fewest elements so far. If several ranks have equally few elements, the lowest of
// them gets the parameter. The result is the same on every rank.
std::vector<int> OwnersOf(const Program& program, const std::vector<ParamGrad>& grads, int ranks);

// The parameters and gradients that one collective sends.
struct OwnedGroup {
  int owner = 0;
  std::vector<ParamGrad> pairs;
};
// Splits each group into one group per owner, by rank. owners[i] is the owner of grads[i].
std::vector<OwnedGroup> SplitByOwner(const std::vector<std::vector<ParamGrad>>& groups,
                                     const std::vector<ParamGrad>& grads,
                                     const std::vector<int>& owners);

// Inserts one c_reduce_sum per group directly after the operator that completes the gradients of
// the group. `ranks` is the attribute `group` of the operator: the number of ranks that share an
// owner. 0: all ranks share one owner.
Status InsertReduce(Program& program, const std::vector<OwnedGroup>& groups, int ranks = 0);
// Appends one c_broadcast per group, after the updates. The operator sends the parameters of the
// group from their owner to the other ranks.
Status AppendBroadcast(Program& program, const std::vector<OwnedGroup>& groups);

}  // namespace tandem::graph
