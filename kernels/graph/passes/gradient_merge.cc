#include "kernels/graph/passes/gradient_merge.h"

#include <set>

#include "common/base/require.h"
#include "kernels/graph/passes/rewrite.h"
#include "proto/strategy.pb.h"

namespace tandem::graph {
namespace {

bool IsTail(const ops::Op& op) {
  return op.role == ops::OpRole::kComm || op.role == ops::OpRole::kOptimize;
}

class Merger {
 public:
  // `stages[i]` is the number of summands in a sum of stage i. Each complete sum of stage i is one
  // summand of stage i + 1. Communication and update (the tail) run when a sum of the last stage is
  // complete.
  Merger(Program& program, std::vector<int64_t> stages, double factor)
      : program_(program), stages_(std::move(stages)), factor_(factor) {}

  StatusOr<int64_t> Run();

 private:
  // Returns the gradients: temporaries that operators of communication or update read and operators
  // of forward or backward write.
  std::vector<std::string> FindGradients() const;
  Status InsertConditions();
  Status Accumulate(const std::string& grad);
  void Redirect(const std::string& from, const std::string& to);
  Status ClearConditions();

  Program& program_;
  const std::vector<int64_t> stages_;
  const double factor_;
  std::vector<std::string> due_;  // by stage: the condition that the sum of the stage is complete
  std::vector<std::string> accumulators_;  // accumulators of the last stage
};

std::vector<std::string> Merger::FindGradients() const {
  std::vector<std::string> found;
  std::set<std::string> seen, tail_wrote;
  for (const ops::Op& op : program_.ops) {
    if (!IsTail(op)) continue;
    ForEachRead(op, [&](const std::string& name) {
      if (program_.FindVar(name)->kind != VarKind::kTemp || tail_wrote.contains(name)) return;
      if (seen.insert(name).second) found.push_back(name);
    });
    ForEachWrite(op, [&](const std::string& name) { tail_wrote.insert(name); });
  }
  return found;
}

void Merger::Redirect(const std::string& from, const std::string& to) {
  for (ops::Op& op : program_.ops) {
    if (!IsTail(op)) continue;
    for (auto* slots : {&op.inputs, &op.outputs}) {
      for (auto& slot : *slots) {
        for (std::string& name : slot) name = name == from ? to : name;
      }
    }
  }
}

Status Merger::InsertConditions() {
  int64_t every = 1;
  for (const int64_t stage : stages_) {
    every *= stage;
    TD_ASSIGN_OR_RETURN(const std::string due,
                        InsertEveryNth(program_, 0, "gradient_merge", {every}, 0, false));
    due_.push_back(due);
  }
  return OkStatus();
}

Status Merger::Accumulate(const std::string& grad) {
  TD_REQUIRE(due_.size() == stages_.size());
  const TensorDesc desc = program_.FindVar(grad)->desc;
  std::vector<ops::Op> ops;
  std::string from = grad;
  int64_t every = 1;
  for (size_t i = 0; i < stages_.size(); ++i) {
    const bool last = i + 1 == stages_.size();
    every *= stages_[i];
    const std::string total = grad + (last ? "@MERGED" : absl::StrFormat("@MERGED_BY_%d", every));
    TD_RETURN_IF_ERROR(AddAccumulator(program_, total, desc));
    ops::Op add = AddToAccumulator(total, from);
    if (i > 0) add.run_if = due_[i - 1];
    ops.push_back(std::move(add));
    if (i > 0) {
      ops.push_back(ResetAccumulator(program_, from));
      ops.back().role = ops::OpRole::kBackward;
      ops.back().run_if = due_[i - 1];
    }
    from = total;
  }
  Redirect(grad, from);
  accumulators_.push_back(from);
  size_t at = BehindWritersOf(program_, {grad});
  for (ops::Op& op : ops) TD_RETURN_IF_ERROR(InsertOp(program_, at++, std::move(op)));
  return OkStatus();
}

// Some conditions are computed by communication or update, such as amp's check for finite
// gradients. Sets these conditions to 0 in steps without an update.
Status Merger::ClearConditions() {
  std::set<std::string> written, conditions;
  for (const ops::Op& op : program_.ops) {
    if (!IsTail(op)) continue;
    if (!op.run_if.empty()) conditions.insert(op.run_if);
    ForEachWrite(op, [&](const std::string& name) { written.insert(name); });
  }
  for (const std::string& condition : conditions) {
    if (!written.contains(condition))
      return Internal(
          "gradient_merge: the merged operators have condition \"%s\", but none of these operators "
          "writes the condition",
          condition);
    TD_RETURN_IF_ERROR(InsertOp(
        program_, 0,
        {.type = "fill_constant",
         .inputs = {},
         .outputs = {{condition}},
         .attrs = {
             {"shape", std::vector<int64_t>{1}}, {"dtype", std::string("f32")}, {"value", 0.0}}}));
  }
  return OkStatus();
}

StatusOr<int64_t> Merger::Run() {
  TD_REQUIRE(!stages_.empty() && factor_ > 0);
  const std::vector<std::string> grads = FindGradients();
  if (grads.empty()) return 0;
  TD_RETURN_IF_ERROR(ScaleLossGradient(program_, factor_));
  TD_RETURN_IF_ERROR(InsertConditions());
  for (const std::string& grad : grads) TD_RETURN_IF_ERROR(Accumulate(grad));
  for (const std::string& total : accumulators_) {
    TD_RETURN_IF_ERROR(AppendOp(program_, ResetAccumulator(program_, total)));
  }
  TD_RETURN_IF_ERROR(ClearConditions());
  for (ops::Op& op : program_.ops) {
    if (IsTail(op) && op.run_if.empty()) op.run_if = due_.back();
  }
  return static_cast<int64_t>(grads.size());
}

}  // namespace

Status AddAccumulator(Program& program, const std::string& name, const TensorDesc& desc) {
  return program.AddVar({.name = name, .kind = VarKind::kState, .desc = desc, .saved = false});
}

ops::Op AddToAccumulator(const std::string& accumulator, const std::string& part) {
  return {.type = "sum",
          .inputs = {{accumulator, part}},
          .outputs = {{accumulator}},
          .role = ops::OpRole::kBackward};
}

ops::Op ResetAccumulator(const Program& program, const std::string& accumulator) {
  TD_REQUIRE(program.FindVar(accumulator) != nullptr);
  const TensorDesc& desc = program.FindVar(accumulator)->desc;
  const auto dims = desc.shape.dims();
  return {.type = "fill_constant",
          .inputs = {},
          .outputs = {{accumulator}},
          .attrs = {{"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                    {"dtype", std::string(Name(desc.dtype))},
                    {"value", 0.0}},
          .role = ops::OpRole::kOptimize};
}

Status ScaleLossGradient(Program& program, double factor) {
  TD_ASSIGN_OR_RETURN(const size_t at, FindLossGradient(program));
  ops::AttrMap& attrs = program.ops[at].attrs;
  attrs["value"] = std::get<double>(attrs.at("value")) * factor;
  return OkStatus();
}

StatusOr<PassOutcome> MergeGradients(Program& program, PassContext& context) {
  const DistributedStrategy& strategy = context.strategy;
  const int64_t steps = strategy.gradient_merge() ? strategy.gradient_merge_configs().k_steps() : 1;
  const int64_t parts = strategy.batch_merge_repeats();
  if (steps * parts == 1) return PassOutcome{0, "k_steps is 1"};
  for (const ParamGrad& pair : context.grads) {
    if (pair.rows.empty()) continue;
    return Unimplemented(
        "gradient_merge: the gradient of \"%s\" is sparse, but only dense gradients can be merged "
        "[TD1109]",
        pair.param);
  }
  double factor = 1.0 / static_cast<double>(parts);
  if (strategy.gradient_merge_configs().avg()) factor /= static_cast<double>(steps);
  std::vector<int64_t> stages = {steps * parts};
  if (strategy.deterministic()) {
    stages.clear();
    for (int64_t left = parts; left > 1; left /= 2) stages.push_back(2);
  }
  TD_ASSIGN_OR_RETURN(const int64_t merged, Merger(program, std::move(stages), factor).Run());
  return PassOutcome{merged, merged == 0 ? "the program uses no gradient" : ""};
}

}  // namespace tandem::graph
