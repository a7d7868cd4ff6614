#include "kernels/graph/distribute/sections.h"

#include <algorithm>
#include <limits>
#include <set>

#include "common/base/require.h"
#include "kernels/graph/op_device.h"
#include "kernels/graph/passes/rewrite.h"
#include "kernels/ops/elementwise/dropout.h"

namespace tandem::graph {
namespace {

// Cost of moving one byte to or from memory, in floating-point operations.
constexpr double kOperationsPerByte = 8;

double Bytes(const Program& program, const std::string& var) {
  return static_cast<double>(program.FindVar(var)->desc.bytes());
}

// Returns the cost of an operator: the larger of its floating-point operations and the cost of its
// memory traffic, in floating-point operations.
double CostOf(const Program& program, const ops::Op& op) {
  const ops::OpDef& def = *ops::FindOp(op.type);
  double bytes = 0;
  ForEachMemoryRead(op, [&](const std::string& name) { bytes += Bytes(program, name); });
  ForEachWrite(op, [&](const std::string& name) { bytes += Bytes(program, name); });
  const double moved = bytes * kOperationsPerByte;
  if (def.flops == nullptr) return moved;
  std::vector<const TensorDesc*> in, out;
  const auto add = [&](const auto& slots, std::vector<const TensorDesc*>* descs) {
    for (const auto& slot : slots) {
      if (slot.empty()) descs->push_back(nullptr);
      for (const std::string& name : slot) {
        descs->push_back(name.empty() ? nullptr : &program.FindVar(name)->desc);
      }
    }
  };
  add(op.inputs, &in);
  add(op.outputs, &out);
  return std::max(moved, def.flops(ops::OpView(op, def, in, out)));
}

// Returns, for each i, the cost of a stage boundary before operator i: the cost of sending all
// values that operators before operator i write and operator i or later operators read.
std::vector<double> CutCosts(const Program& program) {
  const size_t n = program.ops.size();
  std::vector<double> costs(n + 1, 0);
  for (const auto& [name, uses] : FindUses(program)) {
    if (program.FindVar(name)->kind != VarKind::kTemp || uses.writers.empty()) continue;
    const size_t last = uses.readers.empty() ? 0 : uses.readers.back();
    for (size_t i = uses.writers.front() + 1; i <= last; ++i) {
      costs[i] += Bytes(program, name) * kOperationsPerByte;
    }
  }
  return costs;
}

// Returns the index of the first operator that computes the loss or a metric. The last stage begins
// there at the latest, because its ranks report these values. Without a loss: the last operator.
size_t FirstReported(const Program& program) {
  const auto reported = [&program](const std::string& name) {
    return name == program.loss ||
           std::find(program.metrics.begin(), program.metrics.end(), name) != program.metrics.end();
  };
  for (size_t i = 0; i < program.ops.size(); ++i) {
    bool found = false;
    ForEachWrite(program.ops[i], [&](const std::string& name) { found = found || reported(name); });
    if (found) return i;
  }
  return program.ops.size() - 1;
}

// Returns the index of the first operator of each stage. The last stage computes the loss and the
// metrics. The cost of the most expensive stage is minimal. If several partitions are equally good,
// returns the first.
std::vector<size_t> BalancedCut(const Program& program, int sections) {
  const size_t last_begin = FirstReported(program);
  TD_REQUIRE(sections >= 1 && last_begin + 1 >= static_cast<size_t>(sections));
  const size_t n = program.ops.size(), s = static_cast<size_t>(sections);
  std::vector<double> before(n + 1, 0);
  for (size_t i = 0; i < n; ++i) before[i + 1] = before[i] + CostOf(program, program.ops[i]);
  const std::vector<double> cuts = CutCosts(program);
  const double never = std::numeric_limits<double>::infinity();
  // best[k][i] is the lowest possible cost of the most expensive stage if the first i operators
  // form k stages. from[k][i] is the first operator of the last of these stages.
  std::vector<std::vector<double>> best(s + 1, std::vector<double>(n + 1, never));
  std::vector<std::vector<size_t>> from(s + 1, std::vector<size_t>(n + 1, 0));
  best[0][0] = 0;
  for (size_t k = 1; k <= s; ++k) {
    for (size_t i = k; i <= n; ++i) {
      for (size_t j = k - 1; j < i && (k < s || j <= last_begin); ++j) {
        const double cost = std::max(best[k - 1][j], before[i] - before[j] + cuts[j] + cuts[i]);
        if (cost >= best[k][i]) continue;
        best[k][i] = cost;
        from[k][i] = j;
      }
    }
  }
  std::vector<size_t> begins(s);
  for (size_t k = s, i = n; k > 0; i = from[k][i], --k) begins[k - 1] = from[k][i];
  TD_REQUIRE(begins.front() == 0 && std::is_sorted(begins.begin(), begins.end()));
  return begins;
}

using Writers = std::map<std::string, std::set<int>>;  // by variable: the stages that write it

// Returns the stage of an operator that names no stage: for a forward operator the latest of the
// stages from which the operator reads, for a backward operator the earliest of them.
int Inherited(const ops::Op& op, const Writers& writers) {
  const bool backward = IsBackward(op);
  int section = -1;
  ForEachRead(op, [&](const std::string& name) {
    const auto it = writers.find(name);
    if (it == writers.end()) return;
    const int other = backward ? *it->second.begin() : *it->second.rbegin();
    const bool first = section < 0;
    section = first ? other : backward ? std::min(section, other) : std::max(section, other);
  });
  return section;
}

}  // namespace

StatusOr<int> NamedSections(const Program& forward) {
  std::set<int> named;
  for (const ops::Op& op : forward.ops) {
    if (const int section = SectionOf(op); section >= 0) named.insert(section);
  }
  int next = 0;
  for (const int section : named) {
    if (section == next++) continue;
    return InvalidArgument(
        "program \"%s\": op_device names section %d, but no operator names section %d [TD1104]",
        forward.name, section, next - 1);
  }
  return next;
}

Status AssignSections(Program& forward, int sections) {
  TD_REQUIRE(sections >= 1);
  TD_ASSIGN_OR_RETURN(const int named, NamedSections(forward));
  if (named > 0 && named != sections) {
    return InvalidArgument("program \"%s\" names %d sections (op_device), expected %d [TD1104]",
                           forward.name, named, sections);
  }
  if (static_cast<int>(forward.ops.size()) < sections) {
    return InvalidArgument(
        "program \"%s\" has %d operators, which is fewer than its %d sections [TD1104]",
        forward.name, forward.ops.size(), sections);
  }
  const size_t reported = FirstReported(forward);
  if (named == 0 && static_cast<int>(reported) + 1 < sections) {
    return InvalidArgument(
        "program \"%s\" computes its loss or a metric in operator %d, which is fewer than its %d "
        "sections [TD1104]",
        forward.name, reported + 1, sections);
  }
  if (named == 0) {
    const std::vector<size_t> begins = BalancedCut(forward, sections);
    for (size_t s = 0; s < begins.size(); ++s) {
      forward.ops[begins[s]].attrs[kOpDevice] = DeviceOf(static_cast<int>(s));
    }
    int section = 0;
    for (ops::Op& op : forward.ops) {
      section = std::max(section, SectionOf(op));
      op.attrs[kOpDevice] = DeviceOf(section);
    }
    return OkStatus();
  }
  Writers writers;
  for (ops::Op& op : forward.ops) {
    if (SectionOf(op) < 0) op.attrs[kOpDevice] = DeviceOf(std::max(0, Inherited(op, writers)));
    ForEachWrite(op, [&](const std::string& name) { writers[name].insert(SectionOf(op)); });
  }
  return OkStatus();
}

namespace {

bool IsTableLookup(const ops::Op& op) {
  const auto is = [&op](const char* attr) {
    const auto it = op.attrs.find(attr);
    return it != op.attrs.end() && std::get<bool>(it->second);
  };
  return op.type == "lookup_table" && (is("is_sparse") || is("is_distributed"));
}

// Returns a name of an operator for a message: its type and first output, because operators have no
// names.
std::string Told(const ops::Op& op) {
  std::string out;
  ForEachWrite(op, [&](const std::string& name) { out = out.empty() ? name : out; });
  return absl::StrFormat("%s that makes \"%s\"", op.type, out);
}

// Checks `forward`, whose operators are in stage 0 or 1. INVALID_ARGUMENT: a value flows from stage
// 1 to stage 0; operators of both stages use one parameter; a table lookup is in stage 1; or the
// loss or a metric is not computed in stage 1.
Status CheckGuard(const Program& forward, const std::string& device) {
  // `writers`: by output, the operator in stage 1 that writes it. `users`: by variable, its first
  // reader.
  std::map<std::string, const ops::Op*> writers, users;
  for (const ops::Op& op : forward.ops) {
    const bool guarded = SectionOf(op) == 1;
    if (guarded && IsTableLookup(op)) {
      return InvalidArgument(
          "the %s has device guard \"%s\", but heter workers have no tables [TD1107]; hint: remove "
          "op_device from table lookups",
          Told(op), device);
    }
    Status status;
    ForEachRead(op, [&](const std::string& name) {
      const ops::Op*& user = users.emplace(name, &op).first->second;
      if (const auto writer = writers.find(name); !guarded && writer != writers.end()) {
        status = InvalidArgument(
            "the %s has no op_device \"%s\", but reads \"%s\" from an operator with this "
            "op_device; heter workers send back only gradients [TD1107]; hint: set op_device "
            "\"%s\" for this operator, too",
            Told(op), device, name, device);
      } else if (forward.FindVar(name)->kind == VarKind::kParam &&
                 SectionOf(*user) != SectionOf(op)) {
        status = InvalidArgument(
            "the parameter \"%s\" is used by the %s and by the %s, but only one of the two "
            "operators has device guard \"%s\" [TD1107]; hint: set the guard for both operators or "
            "for neither",
            name, Told(*user), Told(op), device);
      }
    });
    TD_RETURN_IF_ERROR(status);
    if (guarded) ForEachWrite(op, [&](const std::string& name) { writers.emplace(name, &op); });
  }
  if (writers.empty()) {
    return InvalidArgument(
        "no operator of program \"%s\" has device guard \"%s\" (op_device), so heter workers have "
        "nothing to compute [TD1107]; hint: set model argument device=%s for the click models, "
        "op_device in the program, or another a_sync_configs.heter_worker_device_guard",
        forward.name, device, device);
  }
  for (const std::string& result : forward.metrics) {
    if (writers.contains(result)) continue;
    return InvalidArgument(
        "metric \"%s\" is not computed under device guard \"%s\" [TD1107]; hint: set the guard for "
        "all operators up to the metric",
        result, device);
  }
  if (writers.contains(forward.loss)) return OkStatus();
  return InvalidArgument(
      "the loss \"%s\" is not computed under device guard \"%s\", so heter workers have no "
      "gradients to send back [TD1107]; hint: set the guard for all operators up to the loss",
      forward.loss, device);
}

}  // namespace

Status AssignGuard(Program& forward, const std::string& device) {
  for (ops::Op& op : forward.ops)
    op.attrs[kOpDevice] = DeviceOf(DeviceKindOf(op) == device ? 1 : 0);
  return CheckGuard(forward, device);
}

namespace {

class PipelinePartitioner {
 public:
  explicit PipelinePartitioner(const Program& program)
      : program_(program), uses_(FindUses(program)) {}

  StatusOr<Sections> Run() {
    FindSections();
    std::vector<std::pair<size_t, Crossing>> found;
    for (const auto& [name, uses] : uses_) {
      const VarKind kind = program_.FindVar(name)->kind;
      if (kind == VarKind::kData || name == ops::kDropoutPosition) continue;
      if (kind == VarKind::kTemp) {
        TD_RETURN_IF_ERROR(AddCrossings(name, uses, &found));
      } else {
        TD_RETURN_IF_ERROR(FindHome(name, uses));
      }
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first, a.second.to) < std::pair(b.first, b.second.to);
    });
    for (auto& [writer, crossing] : found) cut_.crossings.push_back(std::move(crossing));
    TD_REQUIRE(cut_.of_op.size() == program_.ops.size());
    return std::move(cut_);
  }

 private:
  int At(size_t op) const { return cut_.of_op[op]; }

  void FindSections() {
    Writers writers;
    for (const ops::Op& op : program_.ops) {
      int section = SectionOf(op);
      // The gradient of the loss is computed in the stage that computes the loss.
      if (op.role == ops::OpRole::kLoss) section = *writers.at(program_.loss).rbegin();
      if (section < 0) section = std::max(0, Inherited(op, writers));
      cut_.of_op.push_back(section);
      ForEachWrite(op, [&](const std::string& name) { writers[name].insert(section); });
    }
  }

  Status AddCrossings(const std::string& name, const Uses& uses,
                      std::vector<std::pair<size_t, Crossing>>* found) const {
    std::set<int> writers, readers;
    TD_REQUIRE(!uses.writers.empty());
    for (const size_t op : uses.writers) writers.insert(At(op));
    for (const size_t op : uses.readers) readers.insert(At(op));
    const int from = *writers.begin();
    if (writers.size() > 1) {
      return InvalidArgument(
          "pipeline: variable \"%s\" is written in sections %d and %d, expected one section "
          "[TD1104]",
          name, from, *writers.rbegin());
    }
    const bool forward = !IsBackward(program_.ops[uses.writers.front()]);
    readers.erase(from);
    for (const int to : readers) {
      if (forward == (to > from)) {
        found->push_back({uses.writers.back(), {name, from, to, forward}});
        continue;
      }
      return InvalidArgument(
          "pipeline: variable \"%s\" of section %d is read in section %d, but the pipeline sends "
          "%s in the other direction [TD1104]; hint: set a later op_device for the operators that "
          "read this variable",
          name, from, to, forward ? "the values" : "the gradients");
    }
    return OkStatus();
  }

  Status FindHome(const std::string& name, const Uses& uses) {
    std::set<int> users;
    for (const auto* ops : {&uses.writers, &uses.readers}) {
      for (const size_t op : *ops) users.insert(At(op));
    }
    cut_.homes[name] = *users.begin();
    const bool constant = uses.writers.empty() && program_.FindVar(name)->kind == VarKind::kState;
    if (users.size() == 1 || constant) return OkStatus();
    return InvalidArgument(
        "pipeline: variable \"%s\" is used in sections %d and %d, but can be used in only one "
        "section [TD1104]; hint: move all operators that use this variable into one section "
        "(op_device)",
        name, *users.begin(), *users.rbegin());
  }

  const Program& program_;
  const UseMap uses_;
  Sections cut_;
};

}  // namespace

StatusOr<Sections> CutSections(const Program& program) {
  return PipelinePartitioner(program).Run();
}

}  // namespace tandem::graph
