#include "trainer/session/elastic_state.h"

#include <utility>

#include "trainer/modes/state/scope_state.h"

namespace tandem::trainer {

StatusOr<std::shared_ptr<const ElasticState>> KeepState(const graph::Program& program,
                                                        exec::Scope& scope, StepRollback& point,
                                                        ElasticState::Done done) {
  if (point.step() < 0) return nullptr;
  TD_RETURN_IF_ERROR(point.Restore());
  auto kept = std::make_shared<ElasticState>();
  kept->step = point.step();
  kept->done = std::move(done);
  TD_ASSIGN_OR_RETURN(kept->tensors, ScopeState(program, scope, kept->host));
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kParam)) {
    const Tensor* tensor = scope.Find(var->name);
    TD_ASSIGN_OR_RETURN(Tensor copy, Tensor::Make(tensor->desc(), kept->host));
    TD_RETURN_IF_ERROR(scope.device().CopyToHost(copy.data(), tensor->data(), copy.bytes()));
    kept->tensors[var->name] = std::move(copy);
  }
  return kept;
}

Status TakeUp(const ElasticState& kept, exec::Scope& scope) {
  return PutInto(kept.tensors, "in memory", scope);
}

}  // namespace tandem::trainer
