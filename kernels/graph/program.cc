#include "kernels/graph/program.h"

#include <algorithm>
#include <unordered_set>

#include "absl/strings/str_join.h"
#include "common/base/nearest.h"
#include "common/base/require.h"
#include "kernels/graph/op_device.h"
#include "kernels/graph/variable_hint.h"

namespace tandem::graph {
namespace {

bool GoodName(std::string_view name) {
  if (name.empty() || name.size() > 200 || name.find("..") != std::string_view::npos) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("._@/-").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// Returns the operator's name for messages: "conv2d at model.pbtxt:7".
std::string Label(const ops::Op& op) {
  return op.source.empty() ? op.type : op.type + " at " + op.source;
}

Status CheckSlots(const ops::Op& op, const ops::SlotList& defs,
                  const std::vector<std::vector<std::string>>& slots, const char* side) {
  if (slots.size() != defs.size()) {
    return InvalidArgument("%s has %d %s slots, expected %d [TD1206]", Label(op), slots.size(),
                           side, defs.size());
  }
  for (size_t s = 0; s < defs.size(); ++s) {
    const size_t n = slots[s].size();
    const bool good = defs[s].arity == ops::Arity::kMany || n == 1 ||
                      (n == 0 && defs[s].arity == ops::Arity::kOptional);
    if (!good) {
      return InvalidArgument("%s: %s slot %s has %d variables, expected one [TD1206]", Label(op),
                             side, defs[s].name, n);
    }
    const bool unnamed = std::find(slots[s].begin(), slots[s].end(), "") != slots[s].end();
    if (unnamed && defs[s].arity != ops::Arity::kOptional) {
      return InvalidArgument("%s: %s slot %s has a variable without a name [TD1206]", Label(op),
                             side, defs[s].name);
    }
  }
  return OkStatus();
}

Status CheckAttrs(const ops::Op& op, const ops::OpDef& def) {
  for (const auto& [name, value] : op.attrs) {
    if (name == kOpDevice) {
      TD_RETURN_IF_ERROR(Annotate(SectionOf(value).status(), Label(op)));
      continue;
    }
    const auto it = std::find_if(def.attrs.begin(), def.attrs.end(),
                                 [&name = name](const ops::AttrDef& a) { return name == a.name; });
    if (it == def.attrs.end()) {
      std::vector<std::string> known;
      for (const ops::AttrDef& attr : def.attrs) known.emplace_back(attr.name);
      return InvalidArgument("%s has no attribute \"%s\" (attributes: %s) [TD1206]%s", Label(op),
                             name, known.empty() ? "none" : absl::StrJoin(known, ", "),
                             OrDidYouMean(name, known));
    }
    // A required attribute has no default value that could show its type. `infer` and `prepare` of
    // the operator check the type instead.
    const bool typed = it->default_value.index() != 0;
    if (typed && it->default_value.index() != value.index()) {
      return InvalidArgument("%s: attribute \"%s\" has the wrong type [TD1206]", Label(op), name);
    }
  }
  for (const ops::AttrDef& attr : def.attrs) {
    if (attr.default_value.index() == 0 && op.attrs.find(attr.name) == op.attrs.end()) {
      return InvalidArgument("%s: attribute \"%s\" is missing: %s [TD1206]", Label(op), attr.name,
                             attr.doc);
    }
  }
  return OkStatus();
}

// Returns the descriptions of the operator's inputs by position. nullptr: the input is absent.
StatusOr<std::vector<const TensorDesc*>> Inputs(const Program& program, const ops::Op& op) {
  std::vector<const TensorDesc*> descs;
  for (const auto& slot : op.inputs) {
    if (slot.empty()) descs.push_back(nullptr);
    for (const std::string& name : slot) {
      const Var* var = name.empty() ? nullptr : program.FindVar(name);
      if (var == nullptr && !name.empty()) {
        return NotFound(
            "%s reads \"%s\", which is neither a variable nor the output of an earlier operator "
            "[TD1205]%s",
            Label(op), name, OrVariableMeant(program, name));
      }
      descs.push_back(var == nullptr ? nullptr : &var->desc);
    }
  }
  return descs;
}

size_t OutputPositions(const ops::Op& op) {
  size_t n = 0;
  for (const auto& slot : op.outputs) n += std::max<size_t>(slot.size(), 1);
  return n;
}

// Infers the descriptions of the outputs, by position.
StatusOr<std::vector<TensorDesc>> InferOutputs(const Program& program, const ops::Op& op,
                                               const ops::OpDef& def) {
  TD_ASSIGN_OR_RETURN(auto inputs, Inputs(program, op));
  TD_REQUIRE(def.infer != nullptr);
  std::vector<TensorDesc> outputs(OutputPositions(op));
  const ops::OpView view(op, def, inputs, {});
  TD_RETURN_IF_ERROR(def.infer(view, outputs));
  for (const TensorDesc& output : outputs) {
    // The result of small inputs can be larger than any memory.
    const auto shape = ParseShape(output.shape.dims());
    if (!shape.ok())
      return view.Error("the result is invalid: " + std::string(shape.status().message()));
  }
  return outputs;
}

// Calls fn(variable, position) for every output that is present.
template <typename Fn>
Status ForEachOutput(const ops::Op& op, Fn fn) {
  size_t position = 0;
  for (const auto& slot : op.outputs) {
    if (slot.empty()) ++position;
    for (const std::string& name : slot) {
      if (!name.empty()) TD_RETURN_IF_ERROR(fn(name, position));
      ++position;
    }
  }
  return OkStatus();
}

Status CheckOp(const ops::Op& op, const ops::OpDef& def) {
  if (op.body.empty() == def.has_body) {
    return InvalidArgument(
        "operator %s is invalid: %s", Label(op),
        def.has_body ? "the body is missing" : "the operator has a body, which is not allowed");
  }
  for (const ops::Op& inner : op.body) {
    TD_ASSIGN_OR_RETURN(const ops::OpDef* inner_def, ops::GetOp(inner.type));
    TD_RETURN_IF_ERROR(Annotate(CheckOp(inner, *inner_def), Label(op)));
    if (!inner.run_if.empty())
      return InvalidArgument(
          "%s: an operator of the body has a condition (run_if), which is not allowed", Label(op));
  }
  TD_RETURN_IF_ERROR(CheckSlots(op, def.inputs, op.inputs, "input"));
  TD_RETURN_IF_ERROR(CheckSlots(op, def.outputs, op.outputs, "output"));
  return CheckAttrs(op, def);
}

Status CheckCondition(const Program& program, const ops::Op& op) {
  if (op.run_if.empty()) return OkStatus();
  const Var* var = program.FindVar(op.run_if);
  if (var == nullptr || var->desc != TensorDesc{DType::kF32, {1}}) {
    return InvalidArgument("%s: the condition \"%s\" is not an f32 variable of shape [1]",
                           Label(op), op.run_if);
  }
  return OkStatus();
}

std::string Slots(const ops::SlotList& defs, const std::vector<std::vector<std::string>>& slots) {
  TD_REQUIRE(slots.size() <= defs.size());
  std::vector<std::string> parts;
  for (size_t s = 0; s < slots.size(); ++s) {
    const std::string vars = absl::StrJoin(slots[s], " ");
    if (!vars.empty()) parts.push_back(std::string(defs[s].name) + "=" + vars);
  }
  return absl::StrJoin(parts, ", ");
}

std::string DumpOp(const ops::Op& op) {
  const ops::OpDef* def = ops::FindOp(op.type);
  CHECK(def != nullptr) << op.type;
  std::string condition = op.run_if.empty() ? "" : " if " + op.run_if;
  if (const int section = SectionOf(op); section >= 0) {
    absl::StrAppend(&condition, " in section ", section);
  }
  return op.type + "(" + Slots(def->inputs, op.inputs) + ") -> " + Slots(def->outputs, op.outputs) +
         condition;
}

}  // namespace

Status Program::AddVar(Var var) {
  if (!GoodName(var.name)) {
    return InvalidArgument(
        "invalid variable name \"%s\", expected 1 to 200 characters of [A-Za-z0-9._@/-], without "
        "\"..\"",
        var.name);
  }
  if (index_.contains(var.name)) return AlreadyExists("variable \"%s\" already exists", var.name);
  index_[var.name] = vars_.size();
  vars_.push_back(std::move(var));
  TD_REQUIRE(index_.size() == vars_.size());
  return OkStatus();
}

Var* Program::FindVar(std::string_view name) {
  const auto it = index_.find(std::string(name));
  return it == index_.end() ? nullptr : &vars_[it->second];
}

const Var* Program::FindVar(std::string_view name) const {
  return const_cast<Program*>(this)->FindVar(name);
}

std::vector<const Var*> Program::VarsOf(VarKind kind) const {
  std::vector<const Var*> found;
  for (const Var& var : vars_) {
    if (var.kind == kind) found.push_back(&var);
  }
  return found;
}

std::string Program::FreshName(const std::string& base) const {
  std::string name = base;
  for (int i = 1; index_.contains(name); ++i) name = base + "_" + std::to_string(i);
  return name;
}

namespace {

Status AppendOp(Program& program, ops::Op op, bool anew) {
  TD_ASSIGN_OR_RETURN(const ops::OpDef* def, ops::GetOp(op.type));
  TD_RETURN_IF_ERROR(CheckOp(op, *def));
  TD_RETURN_IF_ERROR(CheckCondition(program, op));
  TD_ASSIGN_OR_RETURN(auto outputs, InferOutputs(program, op, *def));
  TD_RETURN_IF_ERROR(ForEachOutput(op, [&](const std::string& name, size_t i) -> Status {
    Var* var = program.FindVar(name);
    if (var == nullptr) {
      return program.AddVar({.name = name, .kind = VarKind::kTemp, .desc = outputs[i]});
    }
    if (anew && var->kind == VarKind::kTemp) var->desc = outputs[i];
    if (var->desc != outputs[i]) {
      return InvalidArgument("%s writes %s to \"%s\", which has the type %s [TD1207]", Label(op),
                             ToString(outputs[i]), name, ToString(var->desc));
    }
    return OkStatus();
  }));
  program.ops.push_back(std::move(op));
  return OkStatus();
}

}  // namespace

Status AppendOp(Program& program, ops::Op op) { return AppendOp(program, std::move(op), false); }
Status AppendOpReinferred(Program& program, ops::Op op) {
  return AppendOp(program, std::move(op), true);
}

Status BindBatch(Program& program, int64_t batch) {
  CHECK_GE(batch, 1);
  for (Var& var : program.vars()) {
    if (var.batch_leading) var.desc.shape[0] = batch;
  }
  for (const ops::Op& op : program.ops) {
    TD_ASSIGN_OR_RETURN(const ops::OpDef* def, ops::GetOp(op.type));
    TD_ASSIGN_OR_RETURN(auto outputs, InferOutputs(program, op, *def));
    TD_RETURN_IF_ERROR(ForEachOutput(op, [&](const std::string& name, size_t i) -> Status {
      Var* var = program.FindVar(name);
      if (var->kind == VarKind::kTemp) {
        var->desc = outputs[i];
      } else if (var->desc != outputs[i]) {
        return InvalidArgument("%s writes %s to \"%s\", which has the type %s [TD1207]", Label(op),
                               ToString(outputs[i]), name, ToString(var->desc));
      }
      return OkStatus();
    }));
  }
  return OkStatus();
}

Status Verify(const Program& program) {
  std::unordered_set<std::string> written;
  // By variable: the condition of the operators that write it.
  std::unordered_map<std::string, std::string> conditional;
  for (const Var& var : program.vars()) {
    if (var.kind != VarKind::kTemp) written.insert(var.name);
  }
  for (const ops::Op& op : program.ops) {
    TD_ASSIGN_OR_RETURN(const ops::OpDef* def, ops::GetOp(op.type));
    TD_RETURN_IF_ERROR(CheckOp(op, *def));
    TD_RETURN_IF_ERROR(CheckCondition(program, op));
    std::string unwritten, lost;
    ForEachRead(op, [&](const std::string& name) {
      if (!written.contains(name)) unwritten = name;
      // A value that is written under a condition must be read only under this condition.
      const auto sometimes = conditional.find(name);
      if (sometimes != conditional.end() && sometimes->second != op.run_if) lost = name;
    });
    ForEachWrite(op, [&](const std::string& name) {
      const bool first = written.insert(name).second;
      if (op.run_if.empty()) {
        conditional.erase(name);
      } else if (first) {
        conditional[name] = op.run_if;
      }
    });
    if (!unwritten.empty()) {
      return FailedPrecondition("%s reads \"%s\" before an operator writes it [TD1205]", Label(op),
                                unwritten);
    }
    if (!lost.empty()) {
      return FailedPrecondition(
          "%s reads \"%s\", which is written only under the condition %s [TD1205]", Label(op), lost,
          conditional.at(lost));
    }
  }
  return OkStatus();
}

std::string Dump(const Program& program) {
  std::string text;
  for (const ops::Op& op : program.ops) {
    text += DumpOp(op);
    if (!op.outputs.empty() && !op.outputs[0].empty()) {
      if (const Var* var = program.FindVar(op.outputs[0][0])) {
        text += "  " + ToString(var->desc.shape);
      }
    }
    text += "\n";
    for (const ops::Op& inner : op.body) text += "  " + DumpOp(inner) + "\n";
  }
  return text;
}

}  // namespace tandem::graph
