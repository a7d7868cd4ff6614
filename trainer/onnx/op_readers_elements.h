// Elementwise operators on values of different shapes.
#pragma once

#include <string>

#include "trainer/onnx/node.h"

namespace tandem::onnx {

// Appends the elementwise operator `type` with the inputs `x` and `y`, and returns the variable of
// its output. Dimensions of size 1 are repeated. UNIMPLEMENTED: both inputs have dimensions of size
// 1, and the larger input lacks the batch.
StatusOr<std::string> Elementwise(const Node& node, const std::string& type, const std::string& x,
                                  const std::string& y);

// Returns a variable with the truth values of `x`: 1 where `x` is not 0, and 0 elsewhere.
StatusOr<std::string> Truth(const Node& node, const std::string& x);

}  // namespace tandem::onnx
