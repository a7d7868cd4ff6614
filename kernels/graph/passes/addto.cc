#include "kernels/graph/passes/addto.h"

#include <algorithm>
#include <map>

#include "common/base/require.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {
namespace {

// One sum of gradients. Its parts are in the order in which they are added.
struct Sum {
  std::vector<std::string> parts;
  std::string total;
};

// Returns true if the sum at index `at` can be accumulated in place. Every part must be a separate
// temporary that only this sum reads. The parts must become ready in the order in which the sum
// adds them.
bool Fits(const Program& program, const std::unordered_map<std::string, Uses>& uses, size_t at) {
  TD_REQUIRE(at < program.ops.size());
  const ops::Op& op = program.ops[at];
  if (op.type != "sum" || op.role != ops::OpRole::kBackward || op.inputs[0].size() < 2)
    return false;
  size_t ready = 0;
  for (const std::string& part : op.inputs[0]) {
    const Uses& use = uses.at(part);
    if (use.writers.size() != 1 || use.readers != std::vector<size_t>{at}) return false;
    if (!MayVanish(program, part) || use.writers[0] < ready) return false;
    ready = use.writers[0];
  }
  return true;
}

void Rename(std::string& name, const std::map<std::string, std::string>& names) {
  const auto it = names.find(name);
  if (it != names.end()) name = it->second;
}

}  // namespace

StatusOr<PassOutcome> AddInPlace(Program& program, PassContext& context) {
  const auto uses = FindUses(program);
  std::vector<bool> gone(program.ops.size());
  std::vector<Sum> sums;
  std::map<std::string, std::string> names;  // name of a total -> name of its first part
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (!Fits(program, uses, i)) continue;
    gone[i] = true;
    sums.push_back({program.ops[i].inputs[0], program.ops[i].outputs[0][0]});
    names[sums.back().total] = sums.back().parts[0];
  }
  if (sums.empty()) return PassOutcome{0, "no gradient has several sources"};
  RemoveOps(program, gone);
  for (ops::Op& op : program.ops) {
    for (auto* slots : {&op.inputs, &op.outputs}) {
      for (auto& slot : *slots) {
        for (std::string& name : slot) Rename(name, names);
      }
    }
  }
  for (ParamGrad& pair : context.grads) Rename(pair.grad, names);
  for (const Sum& sum : sums) {
    // A part may itself be the total of another sum.
    std::vector<std::string> parts = sum.parts;
    for (std::string& part : parts) Rename(part, names);
    for (size_t i = 1; i < parts.size(); ++i) {
      TD_RETURN_IF_ERROR(InsertOp(program, BehindWritersOf(program, {parts[i]}),
                                  {.type = "sum",
                                   .inputs = {{parts[0], parts[i]}},
                                   .outputs = {{parts[0]}},
                                   .role = ops::OpRole::kBackward}));
    }
  }
  return PassOutcome{static_cast<int64_t>(sums.size()), ""};
}

}  // namespace tandem::graph
