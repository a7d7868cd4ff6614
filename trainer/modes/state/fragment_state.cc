#include "trainer/modes/state/fragment_state.h"

#include "common/base/require.h"
#include "trainer/modes/state/scope_state.h"

namespace tandem::trainer {
namespace {

Status SetFlag(exec::Scope& scope, const std::string& var, bool value) {
  return SetScalar(scope, var.c_str(), value ? 1.0f : 0.0f);
}

}  // namespace

Status FragmentState::Start(exec::Scope& scope, const TensorMap& state) const {
  for (const auto& [param, outer] : vars_.outers) {
    if (state.contains(outer)) continue;
    const Tensor* from = scope.Find(param);
    const Tensor* to = scope.Find(outer);
    TD_REQUIRE(from != nullptr && to != nullptr && from->bytes() == to->bytes());
    std::vector<std::byte> values(from->bytes());
    TD_RETURN_IF_ERROR(scope.device().CopyToHost(values.data(), from->data(), values.size()));
    TD_RETURN_IF_ERROR(scope.device().CopyFromHost(to->data(), values.data(), values.size()));
  }
  return OkStatus();
}

Status FragmentState::Read(const exec::Scope& scope) {
  if (rule_.delay == 0) return OkStatus();
  for (int p = 0; p < rule_.fragments; ++p) {
    const Tensor* pending = scope.Find(graph::FragmentPendingVar(p));
    TD_REQUIRE(pending != nullptr);
    TD_ASSIGN_OR_RETURN(const float value, ReadScalar(scope, *pending));
    pending_[static_cast<size_t>(p)] = value != 0.0f;
  }
  return OkStatus();
}

Status FragmentState::BeginStep(exec::Scope& scope, int64_t step) {
  TD_REQUIRE(step >= 0);
  const bool warm = rule_.IsWarm(step);
  applied_ |= warm;
  TD_RETURN_IF_ERROR(SetFlag(scope, graph::kFragmentsWarmVar, warm));
  for (int p = 0; p < rule_.fragments; ++p) {
    const auto at = static_cast<size_t>(p);
    const bool begins = rule_.Begins(p, step);
    // A warm step ends its averages itself. Without `pending_`, a job that resumes with another
    // schedule would apply a mean that does not exist.
    const int64_t begun = step - rule_.delay;
    const bool due = !warm && begun >= rule_.begin_step && rule_.Begins(p, begun);
    const bool ends = due && (rule_.delay == 0 || pending_[at]);
    if (ends) pending_[at] = false;
    if (begins && !warm && rule_.delay > 0) pending_[at] = true;
    applied_ |= ends;
    TD_RETURN_IF_ERROR(SetFlag(scope, graph::FragmentBeginsVar(p), begins));
    TD_RETURN_IF_ERROR(SetFlag(scope, graph::FragmentEndsVar(p), ends));
    if (rule_.delay > 0) {
      TD_RETURN_IF_ERROR(SetFlag(scope, graph::FragmentPendingVar(p), pending_[at]));
    }
  }
  return OkStatus();
}

}  // namespace tandem::trainer
