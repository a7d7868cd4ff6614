// reduce_strategy Reduce: every parameter has one rank that updates it, its owner. Gradients are
// summed at their owners alone, optimizer slots exist only there, and the updated parameters are
// broadcast. Source: Paddle 1.6 multi_devices_graph_pass (ReduceSSAGraphBuilder); with slots spread
// over ranks it is stage 1 of ZeRO (Rajbhandari et al., SC 2020).
#pragma once

#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem {

// Entry i is the owner of grads[i]: each parameter in turn goes to the rank that has the fewest
// elements by then, the lowest of those. The same on every rank.
std::vector<int> OwnersOf(const Program& program, const std::vector<ParamGrad>& grads, int ranks);

// What travels in one collective.
struct OwnedGroup {
  int owner = 0;
  std::vector<ParamGrad> pairs;
};
// The groups, each cut into its owners' parts, by rank. `owners` are those of `grads`.
std::vector<OwnedGroup> SplitByOwner(const std::vector<std::vector<ParamGrad>>& groups,
                                     const std::vector<ParamGrad>& grads,
                                     const std::vector<int>& owners);

// One c_reduce_sum per group, right behind the operator that finishes the group's gradients. Where
// `ranks` is not 0, so many ranks have an owner each (the operator's attribute group).
Status InsertReduce(Program& program, const std::vector<OwnedGroup>& groups, int ranks = 0);
// At the end, behind the updates, one c_broadcast of the parameters per group.
Status AppendBroadcast(Program& program, const std::vector<OwnedGroup>& groups);

}  // namespace tandem
