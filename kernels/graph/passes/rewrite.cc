#include "kernels/graph/passes/rewrite.h"

#include <algorithm>
#include <set>

#include "common/base/require.h"
#include "kernels/graph/op_device.h"

namespace tandem::graph {

UseMap FindUses(const Program& program) {
  UseMap uses;
  const auto add = [](std::vector<size_t>& list, size_t i) {
    if (list.empty() || list.back() != i) list.push_back(i);
  };
  for (size_t i = 0; i < program.ops.size(); ++i) {
    ForEachRead(program.ops[i], [&](const std::string& name) { add(uses[name].readers, i); });
    ForEachWrite(program.ops[i], [&](const std::string& name) { add(uses[name].writers, i); });
  }
  return uses;
}

bool MayVanish(const Program& program, const std::string& var) {
  TD_REQUIRE(program.FindVar(var) != nullptr);
  const auto& metrics = program.metrics;
  return program.FindVar(var)->kind == VarKind::kTemp && var != program.loss &&
         std::find(metrics.begin(), metrics.end(), var) == metrics.end();
}

bool ReadOnlyBy(const Program& program, const UseMap& uses, const std::string& var, size_t reader) {
  TD_REQUIRE(uses.contains(var) && reader < program.ops.size());
  const Uses& use = uses.at(var);
  return use.writers.size() == 1 && use.readers.size() == 1 && use.readers[0] == reader &&
         MayVanish(program, var);
}

Status InsertOp(Program& program, size_t at, ops::Op op) {
  TD_REQUIRE(at <= program.ops.size());
  TD_RETURN_IF_ERROR(AppendOp(program, std::move(op)));
  std::rotate(program.ops.begin() + static_cast<ptrdiff_t>(at), program.ops.end() - 1,
              program.ops.end());
  return OkStatus();
}

Status ReplaceOp(Program& program, size_t at, ops::Op op) {
  TD_REQUIRE(at < program.ops.size());
  const ops::Op& old = program.ops[at];
  if (const auto device = old.attrs.find(kOpDevice); device != old.attrs.end()) {
    op.attrs[kOpDevice] = device->second;
  }
  op.role = old.role;
  op.source = old.source;
  TD_RETURN_IF_ERROR(AppendOp(program, std::move(op)));
  program.ops[at] = std::move(program.ops.back());
  program.ops.pop_back();
  return OkStatus();
}

void RemoveOps(Program& program, const std::vector<bool>& marks) {
  TD_REQUIRE(marks.size() <= program.ops.size());
  size_t kept = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (i < marks.size() && marks[i]) continue;
    if (kept != i) program.ops[kept] = std::move(program.ops[i]);
    ++kept;
  }
  program.ops.resize(kept);
}

StatusOr<std::string> InsertEveryNth(Program& program, size_t at, const std::string& prefix,
                                     const Period& period, int64_t first, bool saved) {
  TD_REQUIRE((period.n >= 1 || !period.var.empty()) && first >= 0);
  const std::string counter = program.FreshName(prefix + "@COUNTER");
  const std::string due = program.FreshName(prefix + "@DUE");
  Var var = {.name = counter, .kind = VarKind::kState, .desc = {DType::kF32, {1}}, .saved = saved};
  var.init.a = -static_cast<float>(first);
  TD_RETURN_IF_ERROR(program.AddVar(std::move(var)));
  ops::Op op = {.type = "every_nth",
                .inputs = {{counter}, {}},
                .outputs = {{counter}, {due}},
                .attrs = {{"n", period.n}}};
  if (!period.var.empty()) op.inputs[1] = {period.var};
  TD_RETURN_IF_ERROR(InsertOp(program, at, std::move(op)));
  return due;
}

size_t BehindWritersOf(const Program& program, const std::vector<std::string>& vars) {
  const std::set<std::string> wanted(vars.begin(), vars.end());
  size_t after = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    ForEachWrite(program.ops[i], [&](const std::string& name) {
      if (wanted.contains(name)) after = i + 1;
    });
  }
  return after;
}

StatusOr<size_t> FindLossGradient(const Program& program) {
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const ops::Op& op = program.ops[i];
    if (op.role == ops::OpRole::kLoss && op.type == "fill_constant") return i;
  }
  return Internal("the program has no gradient of the loss");
}

Status MultiplyLossGradient(Program& program, const std::string& factor) {
  TD_ASSIGN_OR_RETURN(const size_t at, FindLossGradient(program));
  const std::string grad = program.ops[at].outputs[0][0];
  const std::string unscaled = program.FreshName(grad + "@UNSCALED");
  TD_RETURN_IF_ERROR(program.AddVar({.name = unscaled, .desc = program.FindVar(grad)->desc}));
  program.ops[at].outputs[0][0] = unscaled;
  return InsertOp(program, at + 1,
                  {.type = "elementwise_mul",
                   .inputs = {{unscaled}, {factor}},
                   .outputs = {{grad}},
                   .role = ops::OpRole::kLoss});
}

bool Conflict(const ops::Op& a, const ops::Op& b) {
  std::set<std::string> reads, writes;
  ForEachRead(a, [&](const std::string& name) { reads.insert(name); });
  ForEachWrite(a, [&](const std::string& name) { writes.insert(name); });
  bool conflict = false;
  ForEachRead(b, [&](const std::string& name) { conflict |= writes.contains(name); });
  ForEachWrite(b, [&](const std::string& name) {
    conflict |= writes.contains(name) || reads.contains(name);
  });
  return conflict;
}

bool CanMove(const Program& program, size_t from, size_t to) {
  TD_REQUIRE(from < program.ops.size() && to < program.ops.size());
  for (size_t i = std::min(from, to) + 1; i < std::max(from, to); ++i) {
    if (Conflict(program.ops[from], program.ops[i])) return false;
  }
  return true;
}

}  // namespace tandem::graph
