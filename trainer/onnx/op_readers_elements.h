// Elementwise operators between values of different shapes.
#pragma once

#include <string>

#include "trainer/onnx/node.h"

namespace tandem::onnx {

// Returns the variable X op Y of an elementwise operator. The shape of X or Y must be a contiguous
// part of the other's dimensions.
StatusOr<std::string> Elementwise(const Node& node, const std::string& type, const std::string& x,
                                  const std::string& y);

}  // namespace tandem::onnx
