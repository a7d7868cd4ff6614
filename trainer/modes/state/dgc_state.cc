#include "trainer/modes/state/dgc_state.h"

#include "common/base/step_number.h"
#include "trainer/modes/state/scope_state.h"

namespace tandem::trainer {

Status DgcState::BeginStep(exec::Scope& scope, int64_t step) {
  step_ = step;
  if (selected()) sparsity_ = rule_.SparsityAt(step);
  TD_RETURN_IF_ERROR(SetScalar(scope, graph::kDgcWholeVar, selected() ? 0.0f : 1.0f));
  TD_RETURN_IF_ERROR(
      SetScalar(scope, graph::kDgcBeginsVar, step == rule_.begin_step ? 1.0f : 0.0f));
  TD_RETURN_IF_ERROR(SetScalar(scope, graph::kDgcSelectedVar, selected() ? 1.0f : 0.0f));
  return SetScalar(scope, graph::kDgcSparsityVar, sparsity_);
}

// In a checkpoint of step begin_step or an earlier step, the slots are equal on all ranks. Split
// leaves such slots unchanged, because step begin_step itself divides them.
Status DgcState::Split(exec::Scope& scope, int64_t step, int ranks) const {
  if (step <= rule_.begin_step) return OkStatus();
  for (const std::string& slot : slots_) {
    const Tensor& tensor = *scope.Find(slot);
    std::vector<float> values(static_cast<size_t>(tensor.numel()));
    const size_t bytes = values.size() * sizeof(float);
    TD_RETURN_IF_ERROR(scope.device().CopyToHost(values.data(), tensor.data(), bytes));
    for (float& x : values) x /= static_cast<float>(ranks);
    TD_RETURN_IF_ERROR(scope.device().CopyFromHost(tensor.data(), values.data(), bytes));
  }
  return OkStatus();
}

Status DgcState::Sum(collective::Communicator& communicator, TensorMap* state,
                     Time deadline) const {
  if (!selected()) return OkStatus();
  for (const std::string& slot : slots_) {
    const Tensor& copy = state->at(slot);
    TD_RETURN_IF_ERROR(communicator
                           .AllReduce(copy.data(), copy.data(), static_cast<size_t>(copy.numel()),
                                      copy.dtype(), ReduceOp::kSum, {.what = slot})
                           ->Wait(deadline));
  }
  return OkStatus();
}

std::string DgcState::TakeMessage() {
  if (!selected() || std::exchange(told_, sparsity_) == sparsity_) return "";
  return absl::StrFormat("dgc: sparsity=%g at step %d", sparsity_, DisplayStep(step_));
}

}  // namespace tandem::trainer
