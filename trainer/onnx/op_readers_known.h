// Repeats numbers along dimensions.
#pragma once

#include <string>
#include <vector>

#include "trainer/onnx/node.h"

namespace tandem::onnx {

// Repeats `x` once for each sample of the batch, and sets the result of the node to the repeated
// values. The result has the shape `sizes`, in which one size is the batch size. The repetition is
// a matrix product: a column of ones, one for each sample, times `x` as a row. UNIMPLEMENTED: the
// dimension in `sizes` is not the batch size itself, but a multiple of it.
Status Repeat(const Node& n, const std::string& x, const std::vector<int64_t>& sizes);

}  // namespace tandem::onnx
