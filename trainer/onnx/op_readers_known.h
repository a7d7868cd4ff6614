// Computes results of nodes while the model is read.
#pragma once

#include <span>

#include "trainer/onnx/node.h"

namespace tandem::onnx {

// Computes the result of the node if all its inputs are known and none of the inputs is trained.
// `fn`: called for each element with the inputs' numbers as floats. Smaller inputs are broadcast.
// Returns false if an input is not known or is trained.
StatusOr<bool> Fold(const Node& node, float (*fn)(std::span<const float>));

}  // namespace tandem::onnx
