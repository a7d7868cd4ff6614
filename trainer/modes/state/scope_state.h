// Reads and writes values of a scope: scalars that a trainer sets before steps, and the parameters
// and state of a checkpoint.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "kernels/exec/plan.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::trainer {

// Sets the variable `var`, a state variable of one f32, to `value`. Does nothing if the scope lacks
// the variable.
Status SetScalar(exec::Scope& scope, const char* var, float value);
// Returns the value of `tensor`, which has one f32 on the scope's device.
StatusOr<float> ReadScalar(const exec::Scope& scope, const Tensor& tensor);
// Returns the value of variable `var` of the plan, which has one f32.
StatusOr<float> ReadScalar(const exec::Scope& scope, const exec::Plan& plan, std::string_view var);
inline Status SetLearningRate(exec::Scope& scope, float learning_rate) {
  return SetScalar(scope, graph::kLearningRateVar, learning_rate);
}

// Returns the parameters of `program`; the scope must have all parameters. Parameters on the CPU
// share the scope's memory. Other parameters are copied to memory of `host`.
StatusOr<TensorMap> ParamsOf(const graph::Program& program, exec::Scope& scope, Device& host);
// Returns copies, in memory of `host`, of every kState variable that checkpoints contain, except
// the learning rate.
StatusOr<TensorMap> ScopeState(const graph::Program& program, const exec::Scope& scope,
                               Device& host);
// Copies a checkpoint's tensors into the scope. Skips tensors that the scope lacks, because the
// mode stores their values elsewhere. FAILED_PRECONDITION: a tensor and its variable differ in
// shape or type; the message names `dir`.
Status PutInto(const TensorMap& tensors, const std::string& dir, exec::Scope& scope);

}  // namespace tandem::trainer
