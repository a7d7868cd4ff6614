// The gradient part of amp: communication in 16 bits, loss scaling, and skipped updates.
#include <algorithm>
#include <set>

#include "common/tensor/types.h"
#include "kernels/graph/passes/amp.h"
#include "kernels/graph/passes/rewrite.h"
#include "proto/strategy.pb.h"

namespace tandem::graph {
namespace {

bool IsF32(const Program& program, const std::string& var) {
  return program.FindVar(var)->desc.dtype == DType::kF32;
}

class Scaler {
 public:
  Scaler(Program& program, const AmpConfigs& configs) : program_(program), configs_(configs) {}

  StatusOr<int64_t> Run();

 private:
  // The update consists of the optimizer's operators for f32 gradients and the pushes to pservers.
  static bool IsPush(const ops::Op& op) { return op.type == "push_pull" || op.type == "push_rows"; }
  static bool IsUpdate(const ops::Op& op);
  void FindGradients();
  Status AddState(const std::string& name, double value, bool saved);
  Status InsertUnscale();
  Status AgreeOverRanks();
  Status SendZeros();

  bool Has(const char* type) const {
    return std::any_of(program_.ops.begin(), program_.ops.end(),
                       [type](const ops::Op& op) { return op.type == type; });
  }

  Program& program_;
  const AmpConfigs& configs_;
  size_t update_ = 0;               // index of the first operator of the update
  std::vector<std::string> grads_;  // gradients after communication, as f32
  std::string finite_;
};

bool Scaler::IsUpdate(const ops::Op& op) {
  if (IsPush(op)) return true;
  return op.role == ops::OpRole::kOptimize && op.run_if.empty() && op.type != "cast";
}

void Scaler::FindGradients() {
  std::set<std::string> seen;
  update_ = program_.ops.size();
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    const ops::Op& op = program_.ops[i];
    if (!IsUpdate(op)) continue;
    update_ = std::min(update_, i);
    ForEachRead(op, [&](const std::string& name) {
      const bool temp = program_.FindVar(name)->kind == VarKind::kTemp;
      if (temp && IsF32(program_, name) && seen.insert(name).second) grads_.push_back(name);
    });
    ForEachWrite(op, [&](const std::string& name) { seen.insert(name); });
  }
}

Status Scaler::AddState(const std::string& name, double value, bool saved) {
  return program_.AddVar({.name = name,
                          .kind = VarKind::kState,
                          .desc = {DType::kF32, {1}},
                          .init = {Init::kConstant, static_cast<float>(value)},
                          .saved = saved});
}

Status Scaler::InsertUnscale() {
  finite_ = program_.FreshName("loss_scaling@ALL_FINITE");
  TD_RETURN_IF_ERROR(InsertOp(program_, update_,
                              {.type = "check_finite_and_unscale",
                               .inputs = {{kLossScalingVar}, grads_},
                               .outputs = {{finite_}, grads_},
                               .role = ops::OpRole::kOptimize}));
  ++update_;
  if (Has("c_reduce_sum")) TD_RETURN_IF_ERROR(AgreeOverRanks());
  for (size_t i = update_; i < program_.ops.size(); ++i) {
    ops::Op& op = program_.ops[i];
    if (IsUpdate(op) && !IsPush(op)) op.run_if = finite_;
  }
  if (!configs_.use_dynamic_loss_scaling()) return OkStatus();
  const std::string good = std::string(kLossScalingVar) + ".good_steps";
  const std::string bad = std::string(kLossScalingVar) + ".bad_steps";
  TD_RETURN_IF_ERROR(AddState(good, 0, true));
  TD_RETURN_IF_ERROR(AddState(bad, 0, true));
  return InsertOp(
      program_, update_,
      {.type = "update_loss_scaling",
       .inputs = {{finite_}, {kLossScalingVar}, {good}, {bad}},
       .outputs = {{kLossScalingVar}, {good}, {bad}},
       .attrs = {{"incr_every_n_steps", int64_t{configs_.incr_every_n_steps()}},
                 {"decr_every_n_nan_or_inf", int64_t{configs_.decr_every_n_nan_or_inf()}},
                 {"incr_ratio", configs_.incr_ratio()},
                 {"decr_ratio", configs_.decr_ratio()}},
       .role = ops::OpRole::kOptimize});
}

// Makes all ranks agree whether the gradients are finite. With c_reduce_sum, each rank has only the
// sums of the gradients that it owns, but all ranks must skip the update if one rank has an
// overflow.
Status Scaler::AgreeOverRanks() {
  const std::string overflows = program_.FreshName("loss_scaling@OVERFLOWS");
  const std::string none = program_.FreshName("loss_scaling@NO_OVERFLOW");
  const std::string agreed = program_.FreshName("loss_scaling@ALL_FINITE_EVERYWHERE");
  const ops::AttrMap one_minus = {{"scale", -1.0}, {"bias", 1.0}};
  ops::Op ops[] = {
      {.type = "scale", .inputs = {{finite_}}, .outputs = {{overflows}}, .attrs = one_minus},
      {.type = "c_allreduce_sum", .inputs = {{overflows}}, .outputs = {{overflows}}},
      {.type = "scale", .inputs = {{overflows}}, .outputs = {{none}}, .attrs = one_minus},
      {.type = "relu", .inputs = {{none}}, .outputs = {{agreed}}}};
  for (ops::Op& op : ops) {
    op.role = op.type == "c_allreduce_sum" ? ops::OpRole::kComm : ops::OpRole::kOptimize;
    TD_RETURN_IF_ERROR(InsertOp(program_, update_++, std::move(op)));
  }
  finite_ = agreed;
  return OkStatus();
}

// Replaces all gradients by zeros if at least one is not finite. Servers cannot skip a step, and a
// gradient that is not finite would make their parameters unusable. With zeros, this trainer does
// not change the parameters.
Status Scaler::SendZeros() {
  const std::string overflow = program_.FreshName("loss_scaling@OVERFLOW");
  size_t at = update_;
  TD_RETURN_IF_ERROR(InsertOp(program_, at++,
                              {.type = "scale",
                               .inputs = {{finite_}},
                               .outputs = {{overflow}},
                               .attrs = {{"scale", -1.0}, {"bias", 1.0}},
                               .role = ops::OpRole::kOptimize}));
  for (const std::string& grad : grads_) {
    const auto dims = program_.FindVar(grad)->desc.shape.dims();
    TD_RETURN_IF_ERROR(
        InsertOp(program_, at++,
                 {.type = "fill_constant",
                  .inputs = {},
                  .outputs = {{grad}},
                  .attrs = {{"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                            {"dtype", std::string("f32")},
                            {"value", 0.0}},
                  .role = ops::OpRole::kOptimize,
                  .run_if = overflow}));
  }
  return OkStatus();
}

StatusOr<int64_t> Scaler::Run() {
  // A push of rows may come before other gradients are complete. Therefore all pushes move to the
  // end, after the check for finite gradients.
  std::stable_partition(program_.ops.begin(), program_.ops.end(),
                        [](const ops::Op& op) { return !IsPush(op); });
  FindGradients();
  if (grads_.empty()) {
    if (!Has("c_reduce_sum")) return 0;
    return InvalidArgument(
        "amp with reduce_strategy Reduce or sharding needs at least one parameter for each rank, "
        "but there are more ranks than parameters [TD1108]; hint: use fewer ranks");
  }
  // A fixed scale is not saved, because the scale of the job file applies, even if a checkpoint has
  // another scale.
  TD_RETURN_IF_ERROR(
      AddState(kLossScalingVar, configs_.init_loss_scaling(), configs_.use_dynamic_loss_scaling()));
  TD_RETURN_IF_ERROR(MultiplyLossGradient(program_, kLossScalingVar));
  ++update_;
  TD_RETURN_IF_ERROR(InsertUnscale());
  if (Has("push_pull") || Has("push_rows")) TD_RETURN_IF_ERROR(SendZeros());
  return static_cast<int64_t>(grads_.size());
}

}  // namespace

StatusOr<PassOutcome> KeepHalfGradients(Program& program, PassContext& context) {
  const DistributedStrategy& strategy = context.strategy;
  if (strategy.gradient_merge() || strategy.batch_merge_repeats() > 1 || strategy.deterministic()) {
    return PassOutcome{0, "sums over several steps or parts of a batch are f32"};
  }
  const UseMap uses = FindUses(program);
  std::vector<bool> gone(program.ops.size());
  PassOutcome outcome{0, "no gradient is a single 16-bit tensor"};
  for (ParamGrad& pair : context.grads) {
    const auto it = uses.find(pair.grad);
    if (it == uses.end() || !pair.rows.empty()) continue;
    if (it->second.writers.size() != 1 || !it->second.readers.empty()) continue;
    const size_t writer = it->second.writers[0];
    const ops::Op& op = program.ops[writer];
    if (op.type != "cast_grad" || !IsHalf(program.FindVar(op.inputs[1][0])->desc.dtype)) continue;
    gone[writer] = true;
    pair.grad = op.inputs[1][0];
    ++outcome.matched;
  }
  RemoveOps(program, gone);
  return outcome;
}

StatusOr<PassOutcome> ScaleLoss(Program& program, PassContext& context) {
  TD_ASSIGN_OR_RETURN(const int64_t scaled, Scaler(program, context.strategy.amp_configs()).Run());
  return PassOutcome{scaled, "the program updates no parameter"};
}

}  // namespace tandem::graph
