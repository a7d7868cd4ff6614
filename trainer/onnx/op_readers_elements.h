// Elementwise operators on values of different shapes.
#pragma once

#include <string>

#include "trainer/onnx/node.h"

namespace tandem::onnx {

// Appends the elementwise operator `type` with the inputs `x` and `y`, and returns the variable of
// its output. The dimensions of one input must be consecutive dimensions of the other input.
StatusOr<std::string> Elementwise(const Node& node, const std::string& type, const std::string& x,
                                  const std::string& y);

}  // namespace tandem::onnx
