#include "trainer/modes/state/scope_state.h"

#include <utility>

#include "common/base/require.h"

namespace tandem::trainer {

Status SetScalar(exec::Scope& scope, const char* var, float value) {
  const Tensor* tensor = scope.Find(var);
  if (tensor == nullptr) return OkStatus();
  TD_REQUIRE(tensor->bytes() == sizeof(value));
  return scope.device().CopyFromHost(tensor->data(), &value, sizeof(value));
}

StatusOr<float> ReadScalar(const exec::Scope& scope, const Tensor& tensor) {
  TD_REQUIRE(tensor.bytes() >= sizeof(float));
  float value = 0;
  TD_RETURN_IF_ERROR(scope.device().CopyToHost(&value, tensor.data(), sizeof(value)));
  return value;
}

StatusOr<float> ReadScalar(const exec::Scope& scope, const exec::Plan& plan, std::string_view var) {
  TD_ASSIGN_OR_RETURN(const Tensor tensor, plan.Get(var));
  return ReadScalar(scope, tensor);
}

StatusOr<TensorMap> ParamsOf(const graph::Program& program, exec::Scope& scope, Device& host) {
  TensorMap params;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kParam)) {
    const Tensor* tensor = scope.Find(var->name);
    TD_REQUIRE(tensor != nullptr);
    if (scope.device().place().kind == PlaceKind::kCpu) {
      params[var->name] = *tensor;
      continue;
    }
    TD_ASSIGN_OR_RETURN(Tensor copy, Tensor::Make(tensor->desc(), host));
    TD_RETURN_IF_ERROR(scope.device().CopyToHost(copy.data(), tensor->data(), copy.bytes()));
    params[var->name] = std::move(copy);
  }
  return params;
}

StatusOr<TensorMap> ScopeState(const graph::Program& program, const exec::Scope& scope,
                               Device& host) {
  TensorMap state;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kState)) {
    const Tensor* tensor = scope.Find(var->name);
    if (!var->saved || var->name == graph::kLearningRateVar || tensor == nullptr) continue;
    TD_ASSIGN_OR_RETURN(Tensor copy, Tensor::Make(tensor->desc(), host));
    TD_RETURN_IF_ERROR(scope.device().CopyToHost(copy.data(), tensor->data(), copy.bytes()));
    state[var->name] = std::move(copy);
  }
  return state;
}

Status PutInto(const TensorMap& tensors, const std::string& dir, exec::Scope& scope) {
  for (const auto& [name, tensor] : tensors) {
    const Tensor* target = scope.Find(name);
    if (target == nullptr || target->data() == tensor.data()) continue;
    if (target->desc() != tensor.desc()) {
      return FailedPrecondition(
          "checkpoint %s: variable \"%s\" is %s, but the program needs %s [TD2105]", dir, name,
          ToString(tensor.desc()), ToString(target->desc()));
    }
    TD_RETURN_IF_ERROR(scope.device().CopyFromHost(target->data(), tensor.data(), tensor.bytes()));
  }
  return OkStatus();
}

}  // namespace tandem::trainer
