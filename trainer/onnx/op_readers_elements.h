// Elementwise operators on values of different shapes.
#pragma once

#include <string>

#include "trainer/onnx/node.h"

namespace tandem::onnx {

// Returns the variable X op Y for an elementwise operator `type`. The dimensions of X or of Y must
// be consecutive dimensions of the other value.
StatusOr<std::string> Elementwise(const Node& node, const std::string& type, const std::string& x,
                                  const std::string& y);

}  // namespace tandem::onnx
