// Reverse-mode differentiation: appends the operators that compute gradients to the program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem::graph {

// A parameter and its gradient. A sparse gradient (kernels/ops/rows/sparse_rows.h) has its values
// in `grad` and its row numbers in `rows`. `rows` is empty for a dense gradient.
struct ParamGrad {
  std::string param, grad;
  std::string rows = {};
};

// Appends d(loss)/d(loss) = loss_scale and the gradients of all operators between the parameters
// and program.loss. Returns (parameter, gradient) pairs in the order in which the gradients become
// ready, without parameters on which the loss does not depend. A variable that is used several
// times gets the sum of its gradients, which is sparse if all parts are sparse.
// FAILED_PRECONDITION: the program has no loss. INVALID_ARGUMENT: the gradient of an operator is
// needed, but the operator has no gradient (OpDef::grad).
StatusOr<std::vector<ParamGrad>> AppendBackward(Program& program, float loss_scale);

// Returns the name of a variable's gradient: "fc_0.w@GRAD".
std::string GradName(const std::string& var);

// Returns a dense gradient: `pair` if the gradient of `pair` is dense, otherwise the output of an
// appended sparse_rows_to_dense.
StatusOr<ParamGrad> Densify(Program& program, const ParamGrad& pair);
// Returns an f32 gradient: `pair` if the gradient of `pair` is f32, otherwise the output of an
// appended cast with role `role`.
StatusOr<ParamGrad> WidenGradient(Program& program, const ParamGrad& pair, ops::OpRole role);

}  // namespace tandem::graph
