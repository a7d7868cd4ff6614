// Reads the parameters that a job saved, and computes the distance between two sets of parameters.
#pragma once

#include <string>

#include "trainer/files/safetensors.h"

namespace tandem {

// Loads the parameters of the checkpoint in directory `dir` into memory of `device`. Fails the test
// if there is no checkpoint.
trainer::TensorMap SavedParams(const std::string& dir, Device& device);

// Returns |a - b| / |b| over all parameters. Fails the test if `a` and `b` have different names.
double Distance(const trainer::TensorMap& a, const trainer::TensorMap& b);

}  // namespace tandem
