// Builds fused_elementwise operators (kernels/ops/fused/fused_elementwise.cc).
#pragma once

#include <vector>

#include "kernels/graph/program.h"

namespace tandem::graph {

// Returns one operator that replaces the elementwise operators `members` (indices, ascending).
// Values that only the members read and write become internal to the new operator. REQUIRES: all
// members have the same condition.
StatusOr<ops::Op> FuseElementwise(const Program& program, const std::vector<size_t>& members);

}  // namespace tandem::graph
