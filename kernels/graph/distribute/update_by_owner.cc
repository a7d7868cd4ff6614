#include "kernels/graph/distribute/update_by_owner.h"

#include <algorithm>
#include <map>

#include "common/base/require.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {

std::vector<int> OwnersOf(const Program& program, const std::vector<ParamGrad>& grads, int ranks) {
  TD_REQUIRE(ranks >= 1);
  std::vector<int64_t> load(static_cast<size_t>(ranks), 0);
  std::vector<int> owners;
  for (const ParamGrad& pair : grads) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += program.FindVar(pair.param)->desc.shape.numel();
    owners.push_back(static_cast<int>(least - load.begin()));
  }
  return owners;
}

std::vector<OwnedGroup> SplitByOwner(const std::vector<std::vector<ParamGrad>>& groups,
                                     const std::vector<ParamGrad>& grads,
                                     const std::vector<int>& owners) {
  TD_REQUIRE(owners.size() == grads.size());
  std::map<std::string, int> owner_of;
  for (size_t i = 0; i < grads.size(); ++i) owner_of[grads[i].param] = owners[i];
  std::vector<OwnedGroup> split;
  for (const auto& group : groups) {
    std::map<int, OwnedGroup> parts;
    for (const ParamGrad& pair : group) {
      TD_REQUIRE(owner_of.contains(pair.param));
      OwnedGroup& part = parts[owner_of[pair.param]];
      part.owner = owner_of[pair.param];
      part.pairs.push_back(pair);
    }
    for (auto& [owner, part] : parts) split.push_back(std::move(part));
  }
  return split;
}

Status InsertReduce(Program& program, const std::vector<OwnedGroup>& groups, int ranks) {
  for (const OwnedGroup& group : groups) {
    TD_REQUIRE(group.owner >= 0 && !group.pairs.empty());
    std::vector<std::string> names;
    for (const ParamGrad& pair : group.pairs) names.push_back(pair.grad);
    TD_RETURN_IF_ERROR(
        InsertOp(program, BehindWritersOf(program, names),
                 {.type = "c_reduce_sum",
                  .inputs = {names},
                  .outputs = {names},
                  .attrs = {{"root", int64_t{group.owner}}, {"group", int64_t{ranks}}},
                  .role = ops::OpRole::kComm}));
  }
  return OkStatus();
}

Status AppendBroadcast(Program& program, const std::vector<OwnedGroup>& groups) {
  for (const OwnedGroup& group : groups) {
    std::vector<std::string> names;
    for (const ParamGrad& pair : group.pairs) names.push_back(pair.param);
    TD_RETURN_IF_ERROR(AppendOp(program, {.type = "c_broadcast",
                                          .inputs = {names},
                                          .outputs = {names},
                                          .attrs = {{"root", int64_t{group.owner}}},
                                          .role = ops::OpRole::kComm}));
  }
  return OkStatus();
}

}  // namespace tandem::graph
