#include "kernels/graph/optimizer.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace tandem {
namespace {

// A state variable that an optimizer keeps per parameter.
struct SlotRow {
  const char* suffix;     // "velocity": variable "<param>@velocity"
  bool scalar;            // one element instead of the parameter's shape
  const char* init_attr;  // starts at this attribute's value; nullptr: at 0
};

struct OptimizerRow {
  const char* type;  // also the operator's
  std::vector<SlotRow> slots;
};

// Slots in the order of the operator's inputs after Param and Grad, and of its outputs after
// ParamOut.
const std::vector<OptimizerRow>& Rows() {
  static const std::vector<OptimizerRow> rows = {
      {"sgd", {}},
      {"momentum", {{"velocity", false, nullptr}}},
      {"adam",
       {{"moment1", false, nullptr},
        {"moment2", false, nullptr},
        {"beta1_pow", true, "beta1"},
        {"beta2_pow", true, "beta2"}}},
  };
  return rows;
}

StatusOr<const OptimizerRow*> FindRow(const std::string& type) {
  for (const OptimizerRow& row : Rows()) {
    if (type == row.type) return &row;
  }
  return InvalidArgument("unknown optimizer \"%s\" (there are: %s)", type,
                         absl::StrJoin(OptimizerTypes(), ", "));
}

std::string SlotName(const std::string& param, const SlotRow& slot) {
  return param + "@" + slot.suffix;
}

// Value of a floating attribute, given or default.
double AttrValue(const OptimizerSpec& spec, const OpDef& def, const std::string& name) {
  const auto given = spec.attrs.find(name);
  if (given != spec.attrs.end()) return std::get<double>(given->second);
  for (const AttrDef& attr : def.attrs) {
    if (name == attr.name) return std::get<double>(attr.default_value);
  }
  LOG(FATAL) << def.type << " declares no attribute " << name;
}

Status AppendOne(Program& program, const OptimizerSpec& spec, const OptimizerRow& row,
                 const OpDef& def, const ParamGrad& pair) {
  const Var* param = program.FindVar(pair.param);
  if (param == nullptr) return NotFound("there is no parameter \"%s\"", pair.param);
  const TensorDesc desc = param->desc;
  std::vector<std::vector<std::string>> inputs = {{pair.param}, {pair.grad}};
  std::vector<std::vector<std::string>> outputs = {{pair.param}};
  for (const SlotRow& slot : row.slots) {
    const std::string name = SlotName(pair.param, slot);
    const float start =
        slot.init_attr ? static_cast<float>(AttrValue(spec, def, slot.init_attr)) : 0.0f;
    TD_RETURN_IF_ERROR(program.AddVar({.name = name,
                                       .kind = VarKind::kState,
                                       .desc = slot.scalar ? TensorDesc{DType::kF32, {1}} : desc,
                                       .init = {Init::kConstant, start}}));
    inputs.push_back({name});
    outputs.push_back({name});
  }
  inputs.push_back({kLearningRateVar});
  return AppendOp(program, {.type = row.type,
                            .inputs = std::move(inputs),
                            .outputs = std::move(outputs),
                            .attrs = spec.attrs,
                            .role = OpRole::kOptimize});
}

}  // namespace

std::vector<std::string> OptimizerTypes() {
  std::vector<std::string> types;
  for (const OptimizerRow& row : Rows()) types.push_back(row.type);
  return types;
}

Status AppendOptimizer(Program& program, const OptimizerSpec& spec,
                       const std::vector<ParamGrad>& params) {
  TD_ASSIGN_OR_RETURN(const OptimizerRow* row, FindRow(spec.type));
  TD_ASSIGN_OR_RETURN(const OpDef* def, GetOp(spec.type));
  if (program.FindVar(kLearningRateVar) == nullptr) {
    TD_RETURN_IF_ERROR(program.AddVar(
        {.name = kLearningRateVar, .kind = VarKind::kState, .desc = {DType::kF32, {1}}}));
  }
  for (const ParamGrad& pair : params) {
    TD_RETURN_IF_ERROR(AppendOne(program, spec, *row, *def, pair));
  }
  return OkStatus();
}

StatusOr<std::vector<std::string>> OptimizerSlots(const OptimizerSpec& spec,
                                                  const std::string& param) {
  TD_ASSIGN_OR_RETURN(const OptimizerRow* row, FindRow(spec.type));
  std::vector<std::string> names;
  for (const SlotRow& slot : row->slots) names.push_back(SlotName(param, slot));
  return names;
}

}  // namespace tandem
