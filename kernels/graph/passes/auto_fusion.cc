#include "kernels/graph/passes/auto_fusion.h"

#include <algorithm>
#include <set>

#include "kernels/graph/passes/fused.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {
namespace {

class ChainFinder {
 public:
  explicit ChainFinder(const Program& program) : program_(program), taken_(program.ops.size()) {}

  // Returns the chains that can be fused: at least two operators each, in program order.
  std::vector<std::vector<size_t>> Find();
  int64_t candidates() const { return candidates_; }

 private:
  // Returns true for an elementwise operator whose tensors all have one shape. Optimizers are
  // excluded, because another pass fuses them (fuse_optimizer.h).
  bool Fits(const ops::Op& op) const;
  const Shape& ShapeOf(const ops::Op& op) const {
    return program_.FindVar(op.outputs[0][0])->desc.shape;
  }
  std::vector<size_t> Grow(size_t first);
  // Returns true if every operator of the group may run at the position of the group's last
  // operator.
  bool CanGather(const std::vector<size_t>& group) const;

  const Program& program_;
  std::vector<bool> taken_;
  int64_t candidates_ = 0;
};

bool ChainFinder::Fits(const ops::Op& op) const {
  const bool role = op.role == ops::OpRole::kForward || op.role == ops::OpRole::kBackward;
  if (!role || !ops::FindOp(op.type)->elementwise || !op.run_if.empty()) return false;
  bool alike = true;
  const auto check = [&](const std::string& name) {
    const Var* var = program_.FindVar(name);
    alike &= var->desc.shape == ShapeOf(op);
  };
  ForEachRead(op, check);
  ForEachWrite(op, [&](const std::string& name) {
    check(name);
    alike &= program_.FindVar(name)->kind == VarKind::kTemp;
  });
  return alike;
}

bool ChainFinder::CanGather(const std::vector<size_t>& group) const {
  const std::set<size_t> inside(group.begin(), group.end());
  for (const size_t i : group) {
    for (size_t k = i + 1; k < group.back(); ++k) {
      if (!inside.contains(k) && Conflict(program_.ops[i], program_.ops[k])) return false;
    }
  }
  return true;
}

std::vector<size_t> ChainFinder::Grow(size_t first) {
  std::vector<size_t> group = {first};
  std::set<std::string> written;
  ForEachWrite(program_.ops[first], [&](const std::string& name) { written.insert(name); });
  for (size_t i = first + 1; i < program_.ops.size(); ++i) {
    const ops::Op& op = program_.ops[i];
    bool reads = false;
    ForEachRead(op, [&](const std::string& name) { reads |= written.contains(name); });
    if (!reads || taken_[i] || !Fits(op) || ShapeOf(op) != ShapeOf(program_.ops[first])) continue;
    group.push_back(i);
    if (!CanGather(group)) {
      group.pop_back();
      continue;
    }
    ForEachWrite(op, [&](const std::string& name) { written.insert(name); });
  }
  return group;
}

std::vector<std::vector<size_t>> ChainFinder::Find() {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    if (taken_[i] || !Fits(program_.ops[i])) continue;
    ++candidates_;
    std::vector<size_t> group = Grow(i);
    if (group.size() < 2) continue;
    for (const size_t member : group) taken_[member] = true;
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

StatusOr<PassOutcome> FuseChains(Program& program, PassContext&) {
  ChainFinder finder(program);
  const auto groups = finder.Find();
  std::vector<bool> gone(program.ops.size());
  std::vector<ops::Op> fused;
  for (const auto& group : groups) {
    TD_ASSIGN_OR_RETURN(fused.emplace_back(), FuseElementwise(program, group));
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    const size_t last = groups[g].back();
    TD_RETURN_IF_ERROR(ReplaceOp(program, last, std::move(fused[g])));
    for (const size_t i : groups[g]) gone[i] = i != last;
  }
  RemoveOps(program, gone);
  PassOutcome outcome{static_cast<int64_t>(groups.size()), ""};
  if (groups.empty()) {
    outcome.reason =
        finder.candidates() == 0
            ? "there is no elementwise operator over tensors of one shape"
            : absl::StrFormat("none of %d elementwise operators reads the output of another",
                              finder.candidates());
  }
  return outcome;
}

}  // namespace tandem::graph
