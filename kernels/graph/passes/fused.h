// Builds fused_elementwise operators (kernels/ops/fused/fused_elementwise.cc).
#pragma once

#include <vector>

#include "kernels/graph/program.h"

namespace tandem {

// One operator that stands for the elementwise operators `members` (indices, in order). Values that
// only they read and write stay inside. REQUIRES: all have the same condition.
StatusOr<Op> FuseElementwise(const Program& program, const std::vector<size_t>& members);

}  // namespace tandem
