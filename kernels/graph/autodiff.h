// Reverse-mode differentiation of a program, written as operators of the same program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem {

// A parameter and its gradient. A sparse gradient (kernels/ops/rows/sparse_rows.h) has its values
// in `grad` and its row numbers in `rows`; `rows` is empty for a dense one.
struct ParamGrad {
  std::string param, grad;
  std::string rows = {};
};

// Appends d(loss)/d(loss) = loss_scale and the gradient operators of everything between the
// parameters and program.loss. Returns (parameter, gradient) in the order in which the gradients
// become ready; parameters the loss does not depend on are left out. A variable used several times
// gets the sum of its gradients, which is sparse when all of them are.
// FAILED_PRECONDITION without a loss, INVALID_ARGUMENT when a gradient would have to flow through
// an operator that has none.
StatusOr<std::vector<ParamGrad>> AppendBackward(Program& program, float loss_scale);

// The gradient's name of a variable: "fc_0.w@GRAD".
std::string GradName(const std::string& var);

// The gradient as a dense one: `pair` itself, or with the output of a sparse_rows_to_dense that is
// appended.
StatusOr<ParamGrad> Densify(Program& program, const ParamGrad& pair);
// The gradient as f32: `pair` itself, or with the output of a cast of that role that is appended.
StatusOr<ParamGrad> WidenGradient(Program& program, const ParamGrad& pair, OpRole role);

}  // namespace tandem
