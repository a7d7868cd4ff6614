#include "trainer/modes/state/step_rollback.h"

#include "kernels/exec/commit.h"

namespace tandem::trainer {

StatusOr<StepRollback> StepRollback::Make(const graph::Program& program, exec::Scope& scope,
                                          int64_t period, int64_t runs, Device& host) {
  const exec::Commit commit = exec::FindCommit(program);
  StepRollback point(scope, period);
  point.own_.insert(commit.own.begin(), commit.own.end());
  std::set<std::string> keep(commit.early.begin(), commit.early.end());
  if (runs > 1) keep.insert(commit.late.begin(), commit.late.end());
  for (const std::string& name : keep) {
    const Tensor* tensor = scope.Find(name);
    if (tensor == nullptr) return Internal("variable \"%s\" is in no scope", name);
    TD_ASSIGN_OR_RETURN(point.kept_[name], Tensor::Make(tensor->desc(), host));
  }
  return point;
}

Status StepRollback::BeforeStep(int64_t step) {
  if (step % period_ != 0) return OkStatus();
  for (auto& [name, copy] : kept_) {
    const Tensor& now = *scope_->Find(name);
    TD_RETURN_IF_ERROR(scope_->device().CopyToHost(copy.data(), now.data(), copy.bytes()));
  }
  step_ = step;
  return OkStatus();
}

Status StepRollback::Restore() {
  for (const auto& [name, copy] : kept_) {
    const Tensor& now = *scope_->Find(name);
    TD_RETURN_IF_ERROR(scope_->device().CopyFromHost(now.data(), copy.data(), copy.bytes()));
  }
  return OkStatus();
}

}  // namespace tandem::trainer
