#include "kernels/graph/inference.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/nearest.h"
#include "common/base/require.h"
#include "kernels/graph/for_test.h"

namespace tandem::graph {
namespace {

using Names = std::set<std::string>;

bool AnyRead(const ops::Op& op, const Names& names) {
  bool found = false;
  ForEachRead(op, [&](const std::string& name) { found |= names.contains(name); });
  return found;
}

bool AnyWritten(const ops::Op& op, const Names& names) {
  bool found = false;
  ForEachWrite(op, [&](const std::string& name) { found |= names.contains(name); });
  return found;
}

// Returns the variables in the input slots named Label, and all values that are computed from these
// variables.
Names DependOnLabels(const Program& program) {
  Names labels;
  for (auto op = program.ops.rbegin(); op != program.ops.rend(); ++op) {
    const auto& slots = ops::FindOp(op->type)->inputs;
    for (size_t s = 0; s < slots.size(); ++s) {
      if (std::string_view(slots[s].name) != "Label") continue;
      labels.insert(op->inputs[s].begin(), op->inputs[s].end());
    }
    if (!AnyWritten(*op, labels)) continue;
    ForEachRead(*op, [&](const std::string& name) { labels.insert(name); });
  }
  for (const ops::Op& op : program.ops) {
    if (!AnyRead(op, labels)) continue;
    ForEachWrite(op, [&](const std::string& name) { labels.insert(name); });
  }
  return labels;
}

}  // namespace

std::vector<std::string> PredictionsOf(const Program& program) {
  const Names dependent = DependOnLabels(program);
  Names read;
  for (const ops::Op& op : program.ops) {
    if (dependent.empty() || AnyRead(op, dependent)) {
      ForEachRead(op, [&](const std::string& name) { read.insert(name); });
    }
  }
  std::vector<std::string> outputs;
  for (const ops::Op& op : program.ops) {
    // Considers only the first output of an operator, because the other outputs are statistics or a
    // mask.
    for (const std::string& name :
         op.outputs.empty() ? std::vector<std::string>() : op.outputs[0]) {
      if (program.FindVar(name)->kind != VarKind::kTemp || dependent.contains(name)) continue;
      if (read.contains(name) != dependent.empty()) outputs.push_back(name);
    }
  }
  return outputs;
}

StatusOr<std::vector<std::string>> ChooseOutputs(const Program& program,
                                                 std::vector<std::string> outputs) {
  if (outputs.empty()) outputs = PredictionsOf(program);
  if (outputs.empty()) {
    return InvalidArgument(
        "all operators of the program read the labels, so the program has no predictions; hint: "
        "name the variables to compute with --outputs=VARIABLE");
  }
  for (const std::string& name : outputs) {
    if (program.FindVar(name) != nullptr) continue;
    std::vector<std::string> known;
    for (const Var& var : program.vars()) known.push_back(var.name);
    return NotFound("the program has no variable \"%s\", which --outputs names%s", name,
                    OrDidYouMean(name, known));
  }
  return outputs;
}

std::vector<const ops::Op*> OpsFor(const Program& program,
                                   const std::vector<std::string>& outputs) {
  Names needed(outputs.begin(), outputs.end());
  std::vector<const ops::Op*> ops;
  for (auto op = program.ops.rbegin(); op != program.ops.rend(); ++op) {
    if (!AnyWritten(*op, needed)) continue;
    ops.push_back(&*op);
    ForEachRead(*op, [&](const std::string& name) { needed.insert(name); });
  }
  std::reverse(ops.begin(), ops.end());
  return ops;
}

Program InferenceProgram(const Program& forward, const std::vector<std::string>& outputs) {
  const Program tested = ForTest(forward);
  Names used(outputs.begin(), outputs.end());
  Program program;
  program.name = forward.name;
  for (const ops::Op* op : OpsFor(tested, outputs)) {
    program.ops.push_back(*op);
    const auto use = [&used](const std::string& name) { used.insert(name); };
    ForEachRead(*op, use);
    ForEachWrite(*op, use);
  }
  for (const std::string& name : outputs) TD_REQUIRE(tested.FindVar(name) != nullptr);
  for (const Var& var : tested.vars()) {
    if (!used.contains(var.name)) continue;
    const Status added = program.AddVar(var);
    CHECK(added.ok()) << added.message();
  }
  return program;
}

}  // namespace tandem::graph
