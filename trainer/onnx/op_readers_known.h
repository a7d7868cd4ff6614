// Results that are computed while the model is read.
#pragma once

#include <span>

#include "trainer/onnx/node.h"

namespace tandem::onnx {

// Computes the result now if all inputs are known and not trained. `fn` gets the inputs of one
// element as floats; shorter inputs are repeated. False: not all inputs are known.
StatusOr<bool> Fold(const Node& node, float (*fn)(std::span<const float>));

}  // namespace tandem::onnx
