// Finds and takes the part of a forward program that computes predictions: without loss, metrics
// and labels.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "kernels/graph/program.h"

namespace tandem::graph {

// Returns the predictions of a forward program: the values that loss and metrics read and that do
// not depend on a label, for example the logits of a classifier. For a program without labels,
// returns all values that no operator reads. Empty: all operators read the labels.
std::vector<std::string> PredictionsOf(const Program& program);

// Returns the variables to compute: `outputs`, or PredictionsOf(program) if `outputs` is empty.
// INVALID_ARGUMENT: there are no predictions. NOT_FOUND: an output is no variable of the program.
StatusOr<std::vector<std::string>> ChooseOutputs(const Program& program,
                                                 std::vector<std::string> outputs);

// Returns the operators that compute `outputs`, in program order. The operators belong to
// `program`.
std::vector<const ops::Op*> OpsFor(const Program& program, const std::vector<std::string>& outputs);

// Returns a program with only the operators and variables that compute `outputs`, in the form of
// ForTest. REQUIRES: each output is a variable of `forward`.
Program InferenceProgram(const Program& forward, const std::vector<std::string>& outputs);

}  // namespace tandem::graph
