#include "kernels/graph/autodiff.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/base/require.h"
#include "kernels/graph/op_device.h"
#include "kernels/graph/variable_hint.h"

namespace tandem::graph {
namespace {

class Differentiator final : public ops::GradContext {
 public:
  explicit Differentiator(Program& program) : program_(program), forward_ops_(program.ops) {}

  StatusOr<std::vector<ParamGrad>> Run(float loss_scale);

  const ops::Op& op() const override { return *op_; }
  std::string OutGrad(size_t slot, size_t i) const override;
  std::string InGrad(size_t slot, size_t i) override;
  ops::SparseGradNames InGradSparse(size_t slot, size_t i) override;
  void Append(std::string type, std::vector<std::vector<std::string>> inputs,
              std::vector<std::vector<std::string>> outputs, ops::AttrMap attrs) override;

 private:
  void FindNeeded();
  bool FlowsBack(const ops::Op& op) const;
  Status DifferentiateOp(const ops::Op& op);
  // Adds up the parts of the gradient of `var`, so that one variable holds the whole gradient. The
  // result is sparse if all parts are sparse and `dense` is false.
  Status Settle(const std::string& var, bool dense);
  Status MakeDense(const std::string& var);
  bool Needed(const std::string& var) const { return !var.empty() && needed_.contains(var); }
  std::string NextPart(const std::string& var) const;

  Program& program_;
  const std::vector<ops::Op> forward_ops_;
  std::set<std::string> needed_;  // variables whose values depend on a parameter
  // By operator: the parameters that the operator reads and no earlier operator reads. The
  // gradients of these parameters are complete after the gradient operators of this operator.
  std::vector<std::vector<std::string>> first_read_by_;
  // By forward variable: the parts of its gradient that operators have written so far. After the
  // last part, the parts are added.
  std::map<std::string, std::vector<ops::SparseGradNames>> parts_;
  const ops::Op* op_ = nullptr;
  Status status_;
};

void Differentiator::FindNeeded() {
  for (const Var& var : program_.vars()) {
    if (var.kind == VarKind::kParam) needed_.insert(var.name);
  }
  first_read_by_.resize(forward_ops_.size());
  std::set<std::string> unread = needed_;
  for (size_t i = 0; i < forward_ops_.size(); ++i) {
    bool depends = false;
    for (const auto& slot : forward_ops_[i].inputs) {
      for (const std::string& name : slot) {
        depends |= needed_.contains(name);
        if (unread.erase(name) > 0) first_read_by_[i].push_back(name);
      }
    }
    if (!depends) continue;
    for (const auto& slot : forward_ops_[i].outputs) needed_.insert(slot.begin(), slot.end());
  }
}

bool Differentiator::FlowsBack(const ops::Op& op) const {
  for (const auto& slot : op.outputs) {
    for (const std::string& name : slot) {
      if (parts_.contains(name) && needed_.contains(name)) return true;
    }
  }
  return false;
}

std::string Differentiator::OutGrad(size_t slot, size_t i) const {
  const std::string var = Out(slot, i);
  const auto it = parts_.find(var);
  return it == parts_.end() ? "" : it->second.front().values;
}

std::string Differentiator::NextPart(const std::string& var) const {
  const auto it = parts_.find(var);
  const size_t n = it == parts_.end() ? 0 : it->second.size();
  return GradName(var) + (n == 0 ? "" : "@PART" + std::to_string(n));
}

std::string Differentiator::InGrad(size_t slot, size_t i) {
  const std::string var = In(slot, i);
  if (!Needed(var)) return "";
  const std::string name = NextPart(var);
  parts_[var].push_back({name, ""});
  return name;
}

ops::SparseGradNames Differentiator::InGradSparse(size_t slot, size_t i) {
  const std::string var = In(slot, i);
  if (!Needed(var)) return {};
  const std::string name = NextPart(var);
  return parts_[var].emplace_back(ops::SparseGradNames{name, name + "@ROWS"});
}

void Differentiator::Append(std::string type, std::vector<std::vector<std::string>> inputs,
                            std::vector<std::vector<std::string>> outputs, ops::AttrMap attrs) {
  // GradContext represents an absent slot as {""}. An operator represents an absent slot as {}.
  for (auto* slots : {&inputs, &outputs}) {
    for (auto& slot : *slots) {
      if (slot.size() == 1 && slot[0].empty()) slot.clear();
    }
  }
  if (const auto device = op_->attrs.find(kOpDevice); device != op_->attrs.end()) {
    attrs[kOpDevice] = device->second;
  }
  const Status status = AppendOp(program_, {.type = std::move(type),
                                            .inputs = std::move(inputs),
                                            .outputs = std::move(outputs),
                                            .attrs = std::move(attrs),
                                            .role = ops::OpRole::kBackward,
                                            .source = op_->source});
  if (status_.ok()) status_ = status;
}

Status Differentiator::MakeDense(const std::string& var) {
  TD_REQUIRE(parts_.contains(var));
  for (ops::SparseGradNames& part : parts_.at(var)) {
    if (part.rows.empty()) continue;
    TD_ASSIGN_OR_RETURN(const ParamGrad dense, Densify(program_, {var, part.values, part.rows}));
    part = {dense.grad, ""};
  }
  return OkStatus();
}

Status Differentiator::Settle(const std::string& var, bool dense) {
  const auto it = parts_.find(var);
  if (it == parts_.end()) return OkStatus();
  auto& parts = it->second;
  for (const ops::SparseGradNames& part : parts) dense |= part.rows.empty();
  if (dense) TD_RETURN_IF_ERROR(MakeDense(var));
  if (parts.size() < 2) return OkStatus();
  ops::SparseGradNames total{program_.FreshName(GradName(var) + "@SUM"), ""};
  ops::Op op{
      .type = "sum", .inputs = {{}}, .outputs = {{total.values}}, .role = ops::OpRole::kBackward};
  for (const ops::SparseGradNames& part : parts) {
    op.inputs[0].push_back(part.values);
    if (!dense) op.inputs[0].push_back(part.rows);
  }
  if (!dense) {
    total.rows = total.values + "@ROWS";
    op.type = "sum_sparse_rows";
    op.outputs.push_back({total.rows});
    // A table with is_distributed may have 2^32 rows or more. The gradient of such a table has the
    // row numbers within the batch, which are smaller than 2^32.
    op.attrs["height"] = std::min(program_.FindVar(var)->desc.shape[0], (int64_t{1} << 32) - 1);
  }
  TD_RETURN_IF_ERROR(AppendOp(program_, std::move(op)));
  parts = {total};
  return OkStatus();
}

Status Differentiator::DifferentiateOp(const ops::Op& op) {
  TD_REQUIRE(!op.outputs.empty());
  for (const auto& slot : op.outputs) {
    for (const std::string& name : slot) TD_RETURN_IF_ERROR(Settle(name, true));
  }
  TD_ASSIGN_OR_RETURN(const ops::OpDef* def, ops::GetOp(op.type));
  if (def->grad == nullptr) {
    return InvalidArgument(
        "the loss depends on parameters through operator %s, which has no gradient [TD1209]",
        op.source.empty() ? op.type : op.type + " at " + op.source);
  }
  op_ = &op;
  def->grad(*this);
  return status_;
}

StatusOr<std::vector<ParamGrad>> Differentiator::Run(float loss_scale) {
  const Var* loss = program_.FindVar(program_.loss);
  if (loss == nullptr && !program_.loss.empty()) {
    return NotFound("program \"%s\": the loss \"%s\" is not a variable [TD1205]%s", program_.name,
                    program_.loss, OrVariableMeant(program_, program_.loss));
  }
  if (loss == nullptr) {
    return FailedPrecondition(
        "program \"%s\" names no loss to minimise [TD1112]; hint: set loss: \"VARIABLE\" to a "
        "variable f32[1], such as the output of op mean",
        program_.name);
  }
  if (loss->desc != TensorDesc{DType::kF32, {1}}) {
    return FailedPrecondition(
        "program \"%s\": loss \"%s\" is %s, expected f32[1] [TD1112]; hint: take its mean with op "
        "mean",
        program_.name, program_.loss, ToString(loss->desc));
  }
  FindNeeded();
  if (!needed_.contains(program_.loss)) {
    return FailedPrecondition("the loss \"%s\" depends on no parameter [TD1209]", program_.loss);
  }
  const std::string seed = GradName(program_.loss);
  TD_RETURN_IF_ERROR(AppendOp(program_, {.type = "fill_constant",
                                         .inputs = {},
                                         .outputs = {{seed}},
                                         .attrs = {{"shape", std::vector<int64_t>{1}},
                                                   {"dtype", std::string("f32")},
                                                   {"value", double{loss_scale}}},
                                         .role = ops::OpRole::kLoss}));
  parts_[program_.loss] = {{seed, ""}};

  std::vector<ParamGrad> result;
  for (size_t i = forward_ops_.size(); i-- > 0;) {
    if (FlowsBack(forward_ops_[i])) TD_RETURN_IF_ERROR(DifferentiateOp(forward_ops_[i]));
    for (const std::string& param : first_read_by_[i]) {
      if (!parts_.contains(param)) continue;
      TD_RETURN_IF_ERROR(Settle(param, false));
      const ops::SparseGradNames& grad = parts_[param].front();
      TD_REQUIRE(parts_[param].size() == 1 && !grad.values.empty());
      result.push_back({param, grad.values, grad.rows});
    }
  }
  return result;
}

}  // namespace

std::string GradName(const std::string& var) { return var + "@GRAD"; }

StatusOr<std::vector<ParamGrad>> AppendBackward(Program& program, float loss_scale) {
  return Differentiator(program).Run(loss_scale);
}

StatusOr<ParamGrad> Densify(Program& program, const ParamGrad& pair) {
  if (pair.rows.empty()) return pair;
  const std::string dense = program.FreshName(pair.grad + "@DENSE");
  TD_RETURN_IF_ERROR(
      AppendOp(program, {.type = "sparse_rows_to_dense",
                         .inputs = {{pair.grad}, {pair.rows}},
                         .outputs = {{dense}},
                         .attrs = {{"height", program.FindVar(pair.param)->desc.shape[0]}},
                         .role = ops::OpRole::kBackward}));
  return ParamGrad{pair.param, dense};
}

StatusOr<ParamGrad> WidenGradient(Program& program, const ParamGrad& pair, ops::OpRole role) {
  TD_REQUIRE(program.FindVar(pair.grad) != nullptr);
  const DType dtype = program.FindVar(pair.grad)->desc.dtype;
  if (dtype == DType::kF32) return pair;
  const std::string wide = program.FreshName(pair.grad + "@F32");
  TD_RETURN_IF_ERROR(AppendOp(program, {.type = "cast",
                                        .inputs = {{pair.grad}},
                                        .outputs = {{wide}},
                                        .attrs = {{"out_dtype", std::string("f32")}},
                                        .role = role}));
  return ParamGrad{pair.param, wide, pair.rows};
}

}  // namespace tandem::graph
