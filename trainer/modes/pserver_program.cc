#include "trainer/modes/pserver_program.h"

#include <algorithm>

#include "kernels/graph/distribute/distribute.h"
#include "kernels/graph/distribute/fragments.h"
#include "trainer/modes/gradient_groups.h"

namespace tandem::trainer {

Status PserverProgram::Distribute(graph::Program& program,
                                  const std::vector<graph::ParamGrad>& given) {
  TD_ASSIGN_OR_RETURN(reach_, graph::ReachOf(options_.common.optimizer));
  if (reach_ == graph::UpdateScope::kAll && !options_.updates_locally()) {
    return Unimplemented(
        "optimizer.clip_global_norm is not supported in pserver mode, because each server has only "
        "the gradients of its own slices [TD1108]; hint: use clip_norm, or mode collective");
  }
  std::vector<graph::ParamGrad> dense = given;
  if (!options_.updates_locally()) {
    TD_ASSIGN_OR_RETURN(tables_, PsTables::Take(program, options_.common.optimizer,
                                                options_.common.leader(), dense));
    if (!options_.has_event_time) {
      TD_RETURN_IF_ERROR(tables_.RefuseEventTimeRules());
    }
  }
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kParam)) {
    const bool trained =
        std::any_of(dense.begin(), dense.end(),
                    [var](const graph::ParamGrad& pair) { return pair.param == var->name; });
    if (trained) params_.push_back(var->name);
  }
  if (options_.updates_locally()) {
    TD_RETURN_IF_ERROR(SplitParams(program, given));
    TD_RETURN_IF_ERROR(graph::AppendOptimizer(program, options_.common.optimizer, given));
    return graph::AppendGeoExchange(program, params_);
  }
  TD_ASSIGN_OR_RETURN(std::vector<graph::ParamGrad> grads,
                      DensifyGradients(program, dense, options_.common));
  for (graph::ParamGrad& pair : grads) {  // all gradients become f32, because pservers store f32
    TD_ASSIGN_OR_RETURN(pair, graph::WidenGradient(program, pair, ops::OpRole::kBackward));
  }
  return graph::AppendPushPull(program, grads);
}

Status PserverProgram::SplitParams(const graph::Program& program,
                                   const std::vector<graph::ParamGrad>& given) {
  if (options_.regime != PsSyncMode::kLocalSteps) return OkStatus();
  TD_ASSIGN_OR_RETURN(const auto fragments,
                      graph::SplitIntoFragments(program, given, options_.local_steps.fragments));
  for (const std::vector<graph::ParamGrad>& fragment : fragments) {
    std::vector<std::string>& names = fragments_.emplace_back();
    for (const graph::ParamGrad& pair : fragment) names.push_back(pair.param);
  }
  return OkStatus();
}

// In sync mode an evaluation reads the rows as of the last step. In the other modes an evaluation
// reads the current rows.
Status PserverProgram::DistributeForward(graph::Program& program) {
  if (options_.updates_locally()) return OkStatus();
  TD_ASSIGN_OR_RETURN(const auto tables, graph::DistributedTables(program));
  return graph::PrefetchTables(program, tables);
}

}  // namespace tandem::trainer
