// reduce_strategy Reduce: every parameter has one owner, the rank that updates it. Gradients are
// summed only at their owners. Optimizer slots exist only there. The owners broadcast the updated
// parameters. Source: Paddle 1.6 multi_devices_graph_pass (ReduceSSAGraphBuilder). With slots
// spread over ranks this is stage 1 of ZeRO (Rajbhandari et al., SC 2020).
#pragma once

#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem {

// Returns the owner of grads[i] in entry i. Each parameter in turn goes to the rank with the fewest
// elements so far; among equals, to the lowest rank. The result is the same on every rank.
std::vector<int> OwnersOf(const Program& program, const std::vector<ParamGrad>& grads, int ranks);

// The pairs that one collective sends.
struct OwnedGroup {
  int owner = 0;
  std::vector<ParamGrad> pairs;
};
// Splits each group into the parts of its owners, by rank. `owners` are those of `grads`.
std::vector<OwnedGroup> SplitByOwner(const std::vector<std::vector<ParamGrad>>& groups,
                                     const std::vector<ParamGrad>& grads,
                                     const std::vector<int>& owners);

// Inserts one c_reduce_sum per group directly after the operator that completes the group's
// gradients. `ranks` is the operator's attribute group: each group of this many ranks has its own
// owner. 0: all ranks have one owner.
Status InsertReduce(Program& program, const std::vector<OwnedGroup>& groups, int ranks = 0);
// Appends one c_broadcast of the parameters per group, after the updates.
Status AppendBroadcast(Program& program, const std::vector<OwnedGroup>& groups);

}  // namespace tandem
