#include "kernels/graph/passes/recompute.h"

#include <map>
#include <set>

#include "common/base/nearest.h"
#include "proto/strategy.pb.h"

namespace tandem::graph {
namespace {

class Recomputer {
 public:
  explicit Recomputer(Program& program) : program_(program), before_(std::move(program.ops)) {
    program_.ops.clear();
  }

  // Returns the number of repeated operators. After an error the program is unusable.
  StatusOr<int64_t> Run(const std::set<std::string>& checkpoints);

 private:
  Status FindWriters(const std::set<std::string>& checkpoints);
  bool IsKept(const std::string& name) const { return !writer_.contains(name); }
  // Returns the name under which backward reads the value of `name`: `name` itself if its value
  // stays in memory, otherwise a copy. Appends the operators that compute the copy if they are
  // missing.
  StatusOr<std::string> Again(const std::string& name);
  Status Repeat(const ops::Op& op);
  Status RedirectInputs(ops::Op& op);

  Program& program_;
  const std::vector<ops::Op> before_;
  // by forward temporary that does not stay in memory: the index of its writer
  std::map<std::string, size_t> writer_;
  std::map<std::string, std::string> copy_;  // from a temporary to its recomputed copy
  int64_t repeated_ = 0;
};

Status Recomputer::FindWriters(const std::set<std::string>& checkpoints) {
  std::set<std::string> missing = checkpoints;
  std::vector<std::string> forward;
  size_t last = 0;
  for (size_t i = 0; i < before_.size(); ++i) {
    if (before_[i].role != ops::OpRole::kForward) continue;
    ForEachWrite(before_[i], [&](const std::string& name) {
      forward.push_back(name);
      if (missing.erase(name) > 0) last = i;
    });
  }
  if (!missing.empty()) {
    const std::string near = OrDidYouMean(*missing.begin(), forward);
    return NotFound(
        "recompute_configs: no operator writes the checkpoint \"%s\" [TD1205]%s", *missing.begin(),
        near.empty() ? "; hint: run tandem graph --after=model to see the variables of the program"
                     : near);
  }
  for (size_t i = 0; i <= last; ++i) {
    if (before_[i].role != ops::OpRole::kForward || ops::FindOp(before_[i].type)->has_side_effect)
      continue;
    ForEachWrite(before_[i], [&](const std::string& name) {
      const bool temporary = program_.FindVar(name)->kind == VarKind::kTemp;
      if (temporary && !checkpoints.contains(name)) writer_[name] = i;
    });
  }
  return OkStatus();
}

Status Recomputer::RedirectInputs(ops::Op& op) {
  const ops::SlotList& slots = ops::FindOp(op.type)->inputs;
  for (size_t s = 0; s < op.inputs.size(); ++s) {
    if (slots[s].shape_only) continue;
    for (std::string& name : op.inputs[s]) {
      if (name.empty()) continue;
      TD_ASSIGN_OR_RETURN(name, Again(name));
    }
  }
  return OkStatus();
}

Status Recomputer::Repeat(const ops::Op& op) {
  ops::Op again = op;
  again.role = ops::OpRole::kBackward;
  TD_RETURN_IF_ERROR(RedirectInputs(again));
  for (auto& slot : again.outputs) {
    for (std::string& name : slot) {
      if (name.empty()) continue;
      const std::string copy = program_.FreshName(name + "@RECOMPUTE");
      if (!IsKept(name)) copy_[name] = copy;
      name = copy;
    }
  }
  ++repeated_;
  return AppendOp(program_, std::move(again));
}

StatusOr<std::string> Recomputer::Again(const std::string& name) {
  if (IsKept(name)) return name;
  if (!copy_.contains(name)) TD_RETURN_IF_ERROR(Repeat(before_[writer_.at(name)]));
  return copy_.at(name);
}

StatusOr<int64_t> Recomputer::Run(const std::set<std::string>& checkpoints) {
  TD_RETURN_IF_ERROR(FindWriters(checkpoints));
  for (const ops::Op& op : before_) {
    ops::Op next = op;
    if (op.role == ops::OpRole::kBackward) TD_RETURN_IF_ERROR(RedirectInputs(next));
    program_.ops.push_back(std::move(next));
  }
  return repeated_;
}

}  // namespace

StatusOr<PassOutcome> Recompute(Program& program, PassContext& context) {
  const auto& names = context.strategy.recompute_configs().checkpoints();
  if (names.empty()) return PassOutcome{0, "recompute_configs names no checkpoints"};
  TD_ASSIGN_OR_RETURN(const int64_t repeated,
                      Recomputer(program).Run({names.begin(), names.end()}));
  return PassOutcome{repeated,
                     repeated == 0 ? "backward needs no value before the checkpoints" : ""};
}

}  // namespace tandem::graph
