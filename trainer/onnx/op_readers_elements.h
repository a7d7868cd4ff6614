// Elementwise operators on values of different shapes.
#pragma once

#include <string>
#include <vector>

#include "trainer/onnx/node.h"

namespace tandem::onnx {

// Appends the elementwise operator `type` with the inputs `x` and `y`, and returns the variable of
// its output. Dimensions of size 1 are repeated. UNIMPLEMENTED: both inputs have dimensions of size
// 1, and the larger input lacks the batch.
StatusOr<std::string> Elementwise(const Node& node, const std::string& type, const std::string& x,
                                  const std::string& y);

// Returns a variable with the truth values of `x`: 1 where `x` is not 0, and 0 elsewhere.
StatusOr<std::string> Truth(const Node& node, const std::string& x);

// Returns a variable with `times` copies of `x` along dimension `axis`. REQUIRES: times > 0, and
// the dimension exists.
StatusOr<std::string> Repeated(const Node& n, std::string x, int64_t axis, int64_t times);

// Returns a variable that repeats `x` along each dimension in which `x` has size 1 and `sizes` has
// another size. Missing first dimensions count as 1. REQUIRES: the size of such a dimension is
// positive and does not depend on the batch.
StatusOr<std::string> Widened(const Node& n, std::string x, const std::vector<int64_t>& sizes);

}  // namespace tandem::onnx
