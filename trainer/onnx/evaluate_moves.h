// The table of nodes that move known elements.
#pragma once

#include <span>

#include "trainer/onnx/evaluate.h"

namespace tandem::onnx {

// Nodes that select, repeat, insert or reorder elements, and nodes that make ranges.
std::span<const EvaluateRow> EvaluateMoves();

}  // namespace tandem::onnx
