#include "kernels/graph/passes/fused.h"

#include <algorithm>
#include <set>

#include "common/base/require.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {
namespace {

void AddOnce(std::vector<std::string>& list, const std::string& name) {
  if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
}

}  // namespace

StatusOr<ops::Op> FuseElementwise(const Program& program, const std::vector<size_t>& members) {
  TD_REQUIRE(!members.empty() && std::is_sorted(members.begin(), members.end()));
  TD_REQUIRE(members.back() < program.ops.size());
  const auto uses = FindUses(program);
  const std::set<size_t> inside(members.begin(), members.end());
  const auto seen_outside = [&](const std::string& name) {
    if (!MayVanish(program, name)) return true;
    const Uses& use = uses.at(name);
    return std::any_of(use.readers.begin(), use.readers.end(),
                       [&](size_t reader) { return !inside.contains(reader); });
  };
  ops::Op fused{.type = "fused_elementwise", .inputs = {{}}, .outputs = {{}}};
  std::set<std::string> written;
  for (const size_t i : members) {
    ops::Op op = program.ops[i];
    TD_REQUIRE(op.body.empty() && op.run_if == program.ops[members.front()].run_if);
    for (const auto& slot : op.inputs) {
      for (const std::string& name : slot) {
        if (!name.empty() && !written.contains(name)) AddOnce(fused.inputs[0], name);
      }
    }
    ForEachWrite(op, [&](const std::string& name) {
      written.insert(name);
      if (seen_outside(name)) AddOnce(fused.outputs[0], name);
    });
    fused.run_if = std::exchange(op.run_if, "");
    fused.body.push_back(std::move(op));
  }
  return fused;
}

}  // namespace tandem::graph
