#include "kernels/graph/distribute/dgc.h"

#include <algorithm>
#include <cmath>

#include "common/base/require.h"
#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/gradient_rewrite.h"
#include "kernels/graph/passes/rewrite.h"
#include "kernels/ops/update/dgc.h"

namespace tandem::graph {
namespace {

using Groups = std::vector<std::vector<ParamGrad>>;

class Compressor {
 public:
  Compressor(Program& program, const OptimizerSpec& optimizer, const DgcRule& rule, int ranks)
      : program_(program), optimizer_(optimizer), rule_(rule), ranks_(ranks) {}

  StatusOr<std::vector<std::string>> Run(const Groups& groups);

 private:
  Status AddStates();
  Status TakeLocalSettings();
  Status AppendMomentum(const Groups& groups);
  // InsertSelection and InsertExchange insert operators directly after the gradients of the group.
  // Backward then computes further gradients while the ranks communicate.
  Status InsertSelection(const ParamGrad& pair, std::string* selected);
  Status InsertExchange(const std::vector<ParamGrad>& group);
  Status Insert(ops::Op op) { return InsertOp(program_, at_++, std::move(op)); }

  Program& program_;
  OptimizerSpec optimizer_;  // optimizer without its gradient settings, which are in local_
  const DgcRule& rule_;
  const int ranks_;
  GradientSettings local_;  // clipping and weight decay for one rank's part of the gradient
  size_t at_ = 0;
  std::vector<std::string> slots_;
  std::vector<ops::Op> updates_;  // operators that run after all communication
};

Status Compressor::AddStates() {
  for (const char* name : {kDgcWholeVar, kDgcBeginsVar, kDgcSelectedVar, kDgcSparsityVar}) {
    TD_RETURN_IF_ERROR(program_.AddVar(
        {.name = name, .kind = VarKind::kState, .desc = {DType::kF32, {1}}, .saved = false}));
  }
  return OkStatus();
}

// Computes the settings for one rank's part of the gradient. The penalties of all ranks add up to
// the penalty of the job. clip_norm limits the sum over the ranks. Each part gets this limit
// divided by the square root of the number of ranks (section 3.2 of the paper).
Status Compressor::TakeLocalSettings() {
  TD_ASSIGN_OR_RETURN(local_, TakeGradientSettings(optimizer_.attrs));
  if (local_.clip_values || local_.clip_global_norm > 0) {
    return Unimplemented(
        "dgc with %s is not implemented, because no rank has the sum of the gradients [TD1109]; "
        "hint: use clip_norm",
        local_.clip_values ? "clip_min and clip_max" : "clip_global_norm");
  }
  local_.l1_decay /= ranks_;
  local_.l2_decay /= ranks_;
  local_.clip_norm /= std::sqrt(ranks_);
  return OkStatus();
}

Status Compressor::AppendMomentum(const Groups& groups) {
  const size_t before = program_.ops.size();
  for (const auto& group : groups) {
    TD_RETURN_IF_ERROR(AppendOptimizer(program_, optimizer_, group));
  }
  for (size_t i = before; i < program_.ops.size(); ++i) program_.ops[i].run_if = kDgcWholeVar;
  return OkStatus();
}

Status Compressor::InsertSelection(const ParamGrad& pair, std::string* selected) {
  TD_ASSIGN_OR_RETURN(const auto slots, OptimizerSlots(optimizer_, pair.param));
  TD_REQUIRE(slots.size() == 1 && pair.rows.empty());
  const std::string &velocity = slots.at(0), residual = pair.param + "@residual";
  const TensorDesc desc = program_.FindVar(pair.param)->desc;
  TD_RETURN_IF_ERROR(program_.AddVar({.name = residual, .kind = VarKind::kState, .desc = desc}));
  slots_.insert(slots_.end(), {velocity, residual});
  // Before begin_step, the velocity of momentum is the same on all ranks. The unsent elements are
  // also the same, if an earlier run of the job compressed gradients. The velocity and the unsent
  // elements are divided by the number of ranks, so that the sum over the ranks is the old value.
  for (const std::string& slot : {velocity, residual}) {
    TD_RETURN_IF_ERROR(Insert({.type = "scale",
                               .inputs = {{slot}},
                               .outputs = {{slot}},
                               .attrs = {{"scale", 1.0 / ranks_}},
                               .role = ops::OpRole::kOptimize,
                               .run_if = kDgcBeginsVar}));
  }
  const float least =
      static_cast<float>(*std::min_element(rule_.sparsity.begin(), rule_.sparsity.end()));
  ops::AttrMap attrs = optimizer_.attrs;
  attrs.erase("lazy_mode");  // lazy_mode applies only to sparse rows
  attrs["capacity"] = ops::SelectedOf(desc.shape.numel(), least);
  *selected = program_.FreshName(pair.grad + "@SELECTED");
  return Insert({.type = "dgc_compress",
                 .inputs = {{pair.grad}, {velocity}, {residual}, {kDgcSparsityVar}},
                 .outputs = {{velocity}, {residual}, {*selected}},
                 .attrs = std::move(attrs),
                 .role = ops::OpRole::kOptimize,
                 .run_if = kDgcSelectedVar});
}

Status Compressor::InsertExchange(const std::vector<ParamGrad>& group) {
  std::vector<std::string> grads;
  for (const ParamGrad& pair : group) grads.push_back(pair.grad);
  at_ = BehindWritersOf(program_, grads);
  ops::Op gather = {.type = "c_allgather_selected",
                    .inputs = {{}},
                    .outputs = {{}},
                    .attrs = {{"ranks", int64_t{ranks_}}},
                    .role = ops::OpRole::kComm,
                    .run_if = kDgcSelectedVar};
  for (const ParamGrad& pair : group) {
    TD_RETURN_IF_ERROR(InsertSelection(pair, &gather.inputs[0].emplace_back()));
    const std::string all =
        gather.outputs[0].emplace_back(program_.FreshName(pair.grad + "@GATHERED"));
    updates_.push_back({.type = "dgc_update",
                        .inputs = {{pair.param}, {all}, {kLearningRateVar}},
                        .outputs = {{pair.param}},
                        .role = ops::OpRole::kOptimize,
                        .run_if = kDgcSelectedVar});
  }
  return Insert(std::move(gather));
}

StatusOr<std::vector<std::string>> Compressor::Run(const Groups& groups) {
  TD_REQUIRE(ranks_ >= 1 && !rule_.sparsity.empty());
  if (optimizer_.type != "momentum") {
    return Unimplemented(
        "dgc supports only the optimizer momentum, but the optimizer is %s [TD1108]",
        optimizer_.type);
  }
  TD_RETURN_IF_ERROR(AddStates());
  TD_RETURN_IF_ERROR(TakeLocalSettings());
  Groups own;
  for (const auto& group : groups) {
    TD_ASSIGN_OR_RETURN(own.emplace_back(), RewriteGradients(program_, local_, group));
  }
  TD_RETURN_IF_ERROR(InsertAllReduce(program_, own, kDgcWholeVar));
  TD_RETURN_IF_ERROR(AppendMomentum(own));
  for (const auto& group : own) TD_RETURN_IF_ERROR(InsertExchange(group));
  for (ops::Op& op : updates_) TD_RETURN_IF_ERROR(AppendOp(program_, std::move(op)));
  return std::move(slots_);
}

}  // namespace

float DgcRule::SparsityAt(int64_t step) const {
  TD_REQUIRE(step >= begin_step && ramp_steps >= 1 && !sparsity.empty());
  const auto n = static_cast<int64_t>(sparsity.size());
  const int64_t at = std::min(step - begin_step, ramp_steps) * n / ramp_steps;
  return static_cast<float>(sparsity[static_cast<size_t>(std::min(at, n - 1))]);
}

bool IsCompressed(const Program& program, const ParamGrad& pair) {
  return pair.rows.empty() && program.FindVar(pair.param)->desc.shape.numel() >= kDgcElementsMin;
}

StatusOr<std::vector<std::string>> AppendCompressed(
    Program& program, const OptimizerSpec& optimizer,
    const std::vector<std::vector<ParamGrad>>& groups, const DgcRule& rule, int ranks) {
  return Compressor(program, optimizer, rule, ranks).Run(groups);
}

}  // namespace tandem::graph
