// Reverse-mode differentiation of a program, written as operators of the same program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem {

struct ParamGrad {
  std::string param, grad;
};

// Appends d(loss)/d(loss) = loss_scale and the gradient operators of everything between the
// parameters and program.loss. Returns (parameter, gradient) in the order in which the gradients
// become ready; parameters the loss does not depend on are left out. A variable used several times
// gets the sum of its gradients.
// FAILED_PRECONDITION without a loss, INVALID_ARGUMENT when a gradient would have to flow through
// an operator that has none.
StatusOr<std::vector<ParamGrad>> AppendBackward(Program& program, float loss_scale);

// The gradient's name of a variable: "fc_0.w@GRAD".
std::string GradName(const std::string& var);

}  // namespace tandem
