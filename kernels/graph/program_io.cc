#include "kernels/graph/program_io.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "common/base/nearest.h"
#include "kernels/graph/variable_hint.h"
#include "proto/program.pb.h"

namespace tandem::graph {
namespace {

StatusOr<Init> InitFromProto(const pb::InitDef& def) {
  switch (def.kind()) {
    case pb::InitDef::CONSTANT:
      return Init{Init::kConstant, def.value()};
    case pb::InitDef::UNIFORM:
      return Init{Init::kUniform, def.low(), def.high()};
    case pb::InitDef::NORMAL:
      return Init{Init::kNormal, def.mean(), def.stddev()};
    case pb::InitDef::XAVIER_UNIFORM:
      return Init{Init::kXavierUniform};
    case pb::InitDef::MSRA_NORMAL:
      return Init{Init::kMsraNormal};
  }
  return InvalidArgument("the kind of an initial value is unknown: %d", def.kind());
}

void InitToProto(const Init& init, pb::InitDef* out) {
  switch (init.kind) {
    case Init::kConstant:
      out->set_kind(pb::InitDef::CONSTANT);
      out->set_value(init.a);
      break;
    case Init::kUniform:
      out->set_kind(pb::InitDef::UNIFORM);
      out->set_low(init.a);
      out->set_high(init.b);
      break;
    case Init::kNormal:
      out->set_kind(pb::InitDef::NORMAL);
      out->set_mean(init.a);
      out->set_stddev(init.b);
      break;
    case Init::kXavierUniform:
      out->set_kind(pb::InitDef::XAVIER_UNIFORM);
      break;
    case Init::kMsraNormal:
      out->set_kind(pb::InitDef::MSRA_NORMAL);
      break;
  }
}

StatusOr<Var> VarFromProto(const pb::VarDef& def, int64_t batch) {
  Var var;
  var.name = def.name();
  var.kind = static_cast<VarKind>(def.kind());
  TD_ASSIGN_OR_RETURN(var.desc.dtype, DTypeFromNumber(def.dtype()));
  std::vector<int64_t> dims(def.dims().begin(), def.dims().end());
  if (var.kind == VarKind::kData && !dims.empty() && dims[0] == -1) {
    var.batch_leading = true;
    dims[0] = batch;
  }
  TD_ASSIGN_OR_RETURN(var.desc.shape, ParseShape(dims));
  TD_ASSIGN_OR_RETURN(var.init, InitFromProto(def.init()));
  var.saved = def.saved();
  return var;
}

ops::Attr AttrFromProto(const pb::AttrDef& def) {
  switch (def.value_case()) {
    case pb::AttrDef::kI:
      return def.i();
    case pb::AttrDef::kF:
      return def.f();
    case pb::AttrDef::kB:
      return def.b();
    case pb::AttrDef::kS:
      return def.s();
    case pb::AttrDef::kInts:
      return std::vector<int64_t>(def.ints().v().begin(), def.ints().v().end());
    case pb::AttrDef::kFloats:
      return std::vector<double>(def.floats().v().begin(), def.floats().v().end());
    case pb::AttrDef::VALUE_NOT_SET:
      break;
  }
  return {};
}

struct AttrWriter {
  pb::AttrDef* out;
  void operator()(std::monostate) const {}
  void operator()(bool v) const { out->set_b(v); }
  void operator()(int64_t v) const { out->set_i(v); }
  void operator()(double v) const { out->set_f(v); }
  void operator()(const std::string& v) const { out->set_s(v); }
  void operator()(const std::vector<int64_t>& v) const {
    out->mutable_ints()->mutable_v()->Assign(v.begin(), v.end());
  }
  void operator()(const std::vector<double>& v) const {
    out->mutable_floats()->mutable_v()->Assign(v.begin(), v.end());
  }
};

using SlotDefs = google::protobuf::RepeatedPtrField<pb::SlotDef>;

// Returns the named slots of operator `type` in the order of its definition.
StatusOr<std::vector<std::vector<std::string>>> SlotsFromProto(const std::string& type,
                                                               const SlotDefs& given,
                                                               const ops::SlotList& defs) {
  std::vector<std::vector<std::string>> slots(defs.size());
  for (const pb::SlotDef& slot : given) {
    const auto it = std::find_if(defs.begin(), defs.end(),
                                 [&slot](const ops::SlotDef& d) { return slot.slot() == d.name; });
    if (it == defs.end()) {
      std::vector<std::string> known;
      for (const ops::SlotDef& d : defs) known.emplace_back(d.name);
      return InvalidArgument("operator %s has no slot \"%s\" (slots: %s) [TD1206]%s", type,
                             slot.slot(), absl::StrJoin(known, ", "),
                             OrDidYouMean(slot.slot(), known));
    }
    auto& vars = slots[static_cast<size_t>(it - defs.begin())];
    if (!vars.empty())
      return InvalidArgument("slot \"%s\" of operator %s is given twice [TD1206]", slot.slot(),
                             type);
    vars.assign(slot.var().begin(), slot.var().end());
  }
  return slots;
}

StatusOr<ops::Op> OpFromProto(const pb::OpDef& def) {
  TD_ASSIGN_OR_RETURN(const ops::OpDef* definition, ops::GetOp(def.type()));
  ops::Op op;
  op.type = def.type();
  TD_ASSIGN_OR_RETURN(op.inputs, SlotsFromProto(def.type(), def.input(), definition->inputs));
  TD_ASSIGN_OR_RETURN(op.outputs, SlotsFromProto(def.type(), def.output(), definition->outputs));
  for (const pb::AttrDef& attr : def.attr()) op.attrs[attr.name()] = AttrFromProto(attr);
  op.run_if = def.run_if();
  for (const pb::OpDef& inner : def.body()) {
    if (inner.body_size() > 0)
      return InvalidArgument(
          "the body of an operator contains another operator with a body, but bodies cannot be "
          "nested");
    TD_ASSIGN_OR_RETURN(ops::Op inner_op, OpFromProto(inner));
    op.body.push_back(std::move(inner_op));
  }
  return op;
}

void SlotsToProto(const ops::SlotList& defs, const std::vector<std::vector<std::string>>& slots,
                  SlotDefs* out) {
  for (size_t s = 0; s < slots.size(); ++s) {
    if (slots[s].empty()) continue;
    pb::SlotDef* slot = out->Add();
    slot->set_slot(defs[s].name);
    for (const std::string& name : slots[s]) slot->add_var(name);
  }
}

void OpToProto(const ops::Op& op, pb::OpDef* def) {
  const ops::OpDef* definition = ops::FindOp(op.type);
  CHECK(definition != nullptr) << op.type;
  def->set_type(op.type);
  SlotsToProto(definition->inputs, op.inputs, def->mutable_input());
  SlotsToProto(definition->outputs, op.outputs, def->mutable_output());
  for (const auto& [name, value] : op.attrs) {
    pb::AttrDef* attr = def->add_attr();
    attr->set_name(name);
    std::visit(AttrWriter{attr}, value);
  }
  if (!op.run_if.empty()) def->set_run_if(op.run_if);
  for (const ops::Op& inner : op.body) OpToProto(inner, def->add_body());
}

}  // namespace

StatusOr<Program> FromProto(const pb::ProgramDef& def, int64_t batch, const std::string& source) {
  Program program;
  program.name = def.name();
  program.loss = def.loss();
  program.metrics.assign(def.metric().begin(), def.metric().end());
  for (const pb::VarDef& var_def : def.var()) {
    // A temporary without dims is declared later: its writer determines its shape.
    if (var_def.kind() == pb::TEMP && var_def.dims().empty()) continue;
    auto var = VarFromProto(var_def, batch);
    if (!var.ok()) {
      return Annotate(var.status(), source + ": variable \"" + var_def.name() + "\"");
    }
    TD_RETURN_IF_ERROR(Annotate(program.AddVar(*std::move(var)), source));
  }
  for (int i = 0; i < def.op_size(); ++i) {
    const std::string where = source + " op #" + std::to_string(i);
    auto op = OpFromProto(def.op(i));
    if (!op.ok()) return Annotate(op.status(), where + " (" + def.op(i).type() + ")");
    op->source = where;
    TD_RETURN_IF_ERROR(AppendOp(program, *std::move(op)));
  }
  for (const std::string& metric : program.metrics) {
    if (program.FindVar(metric) == nullptr) {
      return NotFound("%s: metric \"%s\" is not a variable [TD1205]%s", source, metric,
                      OrVariableMeant(program, metric));
    }
  }
  TD_RETURN_IF_ERROR(Annotate(Verify(program), source));
  return program;
}

void ToProto(const Program& program, pb::ProgramDef* out) {
  out->Clear();
  out->set_name(program.name);
  for (const Var& var : program.vars()) {
    if (var.kind == VarKind::kTemp) continue;
    pb::VarDef* def = out->add_var();
    def->set_name(var.name);
    const bool remote = var.kind == VarKind::kRemote;
    def->set_kind(static_cast<pb::VarKind>(remote ? VarKind::kParam : var.kind));
    def->set_dtype(static_cast<DataType>(var.desc.dtype));
    for (int64_t d : var.desc.shape.dims()) def->add_dims(d);
    if (var.batch_leading) def->set_dims(0, -1);
    if (var.kind != VarKind::kData) InitToProto(var.init, def->mutable_init());
    if (!var.saved) def->set_saved(false);
  }
  for (const ops::Op& op : program.ops) OpToProto(op, out->add_op());
  out->set_loss(program.loss);
  for (const std::string& metric : program.metrics) out->add_metric(metric);
}

}  // namespace tandem::graph
