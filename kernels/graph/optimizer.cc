#include "kernels/graph/optimizer.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "common/base/nearest.h"
#include "common/base/require.h"
#include "kernels/graph/gradient_rewrite.h"

namespace tandem::graph {
namespace {

// A kind of state that an optimizer keeps for each parameter.
struct SlotRow {
  const char* suffix;   // suffix of the variable's name: "velocity" stands for "<param>@velocity"
  bool scalar = false;  // true: the slot has one element; false: it has the parameter's shape
  // The attribute with the initial value. nullptr: the initial value is 0.
  const char* init_attr = nullptr;
  // The slot exists only if this boolean attribute is set. nullptr: it always exists.
  const char* only_with = nullptr;
};

struct OptimizerRow {
  const char* type;
  const char* op;
  std::vector<SlotRow> slots;
  UpdateScope reach = UpdateScope::kElement;
  ops::AttrMap defaults = {};  // attributes whose defaults differ from those of the operator
  // true: a gradient of 0 changes a parameter even if its slots have their initial values.
  bool moves_fresh = false;
  bool servers_only = false;  // true: a job cannot choose the type; a mode gives it to its servers
};

// The table of optimizers. Slots are in the order of the operator's inputs after Param and Grad,
// which is also the order of its outputs after ParamOut.
const std::vector<OptimizerRow>& Rows() {
  static const std::vector<SlotRow> adam = {
      {"moment1"}, {"moment2"}, {"beta1_pow", true, "beta1"}, {"beta2_pow", true, "beta2"}};
  static const std::vector<OptimizerRow> rows = {
      {"sgd", "sgd", {}},
      {"momentum", "momentum", {{"velocity"}}},
      {"adam", "adam", adam},
      {"adamw", "adam", adam, UpdateScope::kElement, {{"weight_decay", 0.01}}},
      {"adagrad", "adagrad", {{"moment", false, "initial_accumulator"}}},
      {"decayed_adagrad", "decayed_adagrad", {{"moment"}}},
      {"adamax", "adamax", {{"moment"}, {"inf_norm"}, {"beta1_pow", true, "beta1"}}},
      {"rmsprop",
       "rmsprop",
       {{"mean_square"}, {"momentum"}, {"mean_grad", false, nullptr, "centered"}}},
      {"ftrl", "ftrl", {{"squared"}, {"linear"}}, UpdateScope::kElement, {}, true},
      {"lars_momentum", "lars_momentum", {{"velocity"}}, UpdateScope::kParameter},
      {"lamb", "lamb", adam, UpdateScope::kParameter},
      {"buffered_momentum",
       "buffered_momentum",
       {{"outer_velocity"}, {"sum"}, {"weight", true}, {"count", true}},
       UpdateScope::kElement,
       {},
       false,
       true},
  };
  return rows;
}

Status UnknownType(const std::string& type) {
  return InvalidArgument("unknown optimizer \"%s\" [TD1203]%s (optimizers: %s)", type,
                         OrDidYouMean(type, OptimizerTypes()),
                         absl::StrJoin(OptimizerTypes(), ", "));
}

StatusOr<const OptimizerRow*> FindRow(const std::string& type) {
  for (const OptimizerRow& row : Rows()) {
    if (type == row.type) return &row;
  }
  return UnknownType(type);
}

std::string SlotName(const std::string& param, const SlotRow& slot) {
  return param + "@" + slot.suffix;
}

const ops::AttrDef* FindAttr(const ops::OpDef& def, const std::string& name) {
  for (const ops::AttrDef& attr : def.attrs) {
    if (name == attr.name) return &attr;
  }
  return nullptr;
}

// Returns the value of attribute `name` in `attrs`. Returns the default if the attribute is missing
// or has the wrong type; AppendOp rejects the wrong type later.
template <typename T>
T AttrValue(const ops::AttrMap& attrs, const ops::OpDef& def, const std::string& name) {
  const auto given = attrs.find(name);
  if (given != attrs.end() && std::holds_alternative<T>(given->second)) {
    return std::get<T>(given->second);
  }
  const ops::AttrDef* attr = FindAttr(def, name);
  CHECK(attr != nullptr) << def.type << " declares no attribute " << name;
  return std::get<T>(attr->default_value);
}

bool Kept(const SlotRow& slot, const ops::AttrMap& attrs, const ops::OpDef& def) {
  return slot.only_with == nullptr || AttrValue<bool>(attrs, def, slot.only_with);
}

// Returns the attributes of `spec`, completed with the defaults of the optimizer type.
ops::AttrMap AttrsOf(const OptimizerSpec& spec, const OptimizerRow& row) {
  ops::AttrMap attrs = spec.attrs;
  attrs.insert(row.defaults.begin(), row.defaults.end());
  return attrs;
}

bool TakesRows(const ops::OpDef& def) { return std::string_view(def.inputs.back().name) == "Rows"; }

Status AppendOne(Program& program, const ops::AttrMap& attrs, const OptimizerRow& row,
                 const ops::OpDef& def, const ParamGrad& pair) {
  const Var* param = program.FindVar(pair.param);
  if (param == nullptr) return NotFound("there is no parameter \"%s\" [TD1205]", pair.param);
  const TensorDesc desc = param->desc;
  if (!pair.rows.empty() && !TakesRows(def)) {
    return Unimplemented(
        "optimizer %s does not support sparse gradients, but the gradient of \"%s\" is sparse "
        "[TD1203]",
        row.type, pair.param);
  }
  ops::Op op{.type = row.op,
             .inputs = {{pair.param}, {pair.grad}},
             .outputs = {{pair.param}},
             .attrs = attrs,
             .role = ops::OpRole::kOptimize};
  for (const SlotRow& slot : row.slots) {
    auto& in = op.inputs.emplace_back();
    auto& out = op.outputs.emplace_back();
    if (!Kept(slot, attrs, def)) continue;
    const std::string name = SlotName(pair.param, slot);
    const double start = slot.init_attr ? AttrValue<double>(attrs, def, slot.init_attr) : 0.0;
    TD_RETURN_IF_ERROR(program.AddVar({.name = name,
                                       .kind = VarKind::kState,
                                       .desc = slot.scalar ? TensorDesc{DType::kF32, {1}} : desc,
                                       .init = {Init::kConstant, static_cast<float>(start)}}));
    in.push_back(name);
    out.push_back(name);
  }
  op.inputs.push_back({kLearningRateVar});
  TD_REQUIRE(op.outputs.size() == 1 + row.slots.size());
  if (TakesRows(def)) op.inputs.emplace_back();
  if (!pair.rows.empty()) op.inputs.back() = {pair.rows};
  return AppendOp(program, std::move(op));
}

// Rejects decay_exclude if no weight decay is set.
Status CheckExclude(const ops::AttrMap& attrs, const GradientSettings& settings,
                    const ops::OpDef& def) {
  const bool decays = settings.l1_decay > 0 || settings.l2_decay > 0 ||
                      (FindAttr(def, "weight_decay") != nullptr &&
                       AttrValue<double>(attrs, def, "weight_decay") > 0);
  if (decays || settings.decay_exclude.empty()) return OkStatus();
  return InvalidArgument(
      "decay_exclude has no effect, because optimizer %s has no weight decay [TD1107]", def.type);
}

}  // namespace

std::vector<std::string> OptimizerTypes() {
  std::vector<std::string> types;
  for (const OptimizerRow& row : Rows()) {
    if (!row.servers_only) types.push_back(row.type);
  }
  return types;
}

Status CheckJobOptimizer(const std::string& type) {
  TD_ASSIGN_OR_RETURN(const OptimizerRow* row, FindRow(type));
  return row->servers_only ? UnknownType(type) : OkStatus();
}

StatusOr<const ops::OpDef*> OptimizerOp(const std::string& type) {
  TD_ASSIGN_OR_RETURN(const OptimizerRow* row, FindRow(type));
  return ops::GetOp(row->op);
}

StatusOr<UpdateScope> ReachOf(const OptimizerSpec& spec) {
  TD_ASSIGN_OR_RETURN(const OptimizerRow* row, FindRow(spec.type));
  ops::AttrMap attrs = spec.attrs;
  TD_ASSIGN_OR_RETURN(const GradientSettings settings, TakeGradientSettings(attrs));
  if (settings.clip_global_norm > 0) return UpdateScope::kAll;
  return settings.clip_norm > 0 ? UpdateScope::kParameter : row->reach;
}

StatusOr<UntouchedRowPolicy> IdleRowsOf(const OptimizerSpec& spec, const std::string& param) {
  TD_ASSIGN_OR_RETURN(const OptimizerRow* row, FindRow(spec.type));
  TD_ASSIGN_OR_RETURN(const ops::OpDef* def, ops::GetOp(row->op));
  ops::AttrMap attrs = AttrsOf(spec, *row);
  TD_ASSIGN_OR_RETURN(const GradientSettings settings, TakeGradientSettings(attrs));
  const bool lazy =
      FindAttr(*def, "lazy_mode") == nullptr || AttrValue<bool>(attrs, *def, "lazy_mode");
  if (lazy) return UntouchedRowPolicy::kStay;
  const bool decays = FindAttr(*def, "weight_decay") != nullptr && !settings.Excluded(param) &&
                      AttrValue<double>(attrs, *def, "weight_decay") > 0;
  return decays || row->moves_fresh ? UntouchedRowPolicy::kMove : UntouchedRowPolicy::kFade;
}

Status AppendOptimizer(Program& program, const OptimizerSpec& spec,
                       const std::vector<ParamGrad>& params) {
  TD_ASSIGN_OR_RETURN(const OptimizerRow* row, FindRow(spec.type));
  TD_ASSIGN_OR_RETURN(const ops::OpDef* def, ops::GetOp(row->op));
  ops::AttrMap attrs = AttrsOf(spec, *row);
  TD_ASSIGN_OR_RETURN(const GradientSettings settings, TakeGradientSettings(attrs));
  TD_RETURN_IF_ERROR(CheckExclude(attrs, settings, *def));
  std::vector<ParamGrad> wide;  // gradients in f32, because optimizers support only f32
  for (const ParamGrad& pair : params) {
    TD_ASSIGN_OR_RETURN(wide.emplace_back(), WidenGradient(program, pair, ops::OpRole::kOptimize));
  }
  TD_ASSIGN_OR_RETURN(const auto grads, RewriteGradients(program, settings, wide));
  TD_REQUIRE(grads.size() == params.size());
  if (program.FindVar(kLearningRateVar) == nullptr) {
    TD_RETURN_IF_ERROR(program.AddVar(
        {.name = kLearningRateVar, .kind = VarKind::kState, .desc = {DType::kF32, {1}}}));
  }
  for (const ParamGrad& pair : grads) {
    ops::AttrMap own = attrs;
    const bool excluded = settings.Excluded(pair.param);
    if (excluded && FindAttr(*def, "weight_decay") != nullptr) own["weight_decay"] = 0.0;
    TD_RETURN_IF_ERROR(AppendOne(program, own, *row, *def, pair));
  }
  return OkStatus();
}

StatusOr<std::vector<std::string>> OptimizerSlots(const OptimizerSpec& spec,
                                                  const std::string& param) {
  TD_ASSIGN_OR_RETURN(const OptimizerRow* row, FindRow(spec.type));
  TD_ASSIGN_OR_RETURN(const ops::OpDef* def, ops::GetOp(row->op));
  std::vector<std::string> names;
  for (const SlotRow& slot : row->slots) {
    if (Kept(slot, spec.attrs, *def)) names.push_back(SlotName(param, slot));
  }
  return names;
}

}  // namespace tandem::graph
