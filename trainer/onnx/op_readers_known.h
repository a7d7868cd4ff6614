// Computes results of nodes while the model is read.
#pragma once

#include <span>

#include "trainer/onnx/node.h"

namespace tandem::onnx {

// Computes the result of the node if all its inputs are known and none is trained. `fn`: called for
// each element with the inputs' numbers as floats; smaller inputs are repeated. Returns false if an
// input is not known.
StatusOr<bool> Fold(const Node& node, float (*fn)(std::span<const float>));

}  // namespace tandem::onnx
