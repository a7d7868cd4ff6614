// Gradients in the form in which the modes send them.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"
#include "trainer/modes/common_options.h"

namespace tandem::trainer {

// Calls DensifyAll. Rank 0 logs a line if it changes anything.
StatusOr<std::vector<ParamGrad>> DensifyGradients(Program& program,
                                                  const std::vector<ParamGrad>& grads,
                                                  const CommonOptions& options);

// Divides the gradients into groups, one per collective call. With fuse_all_reduce off each
// gradient is its own group.
std::vector<std::vector<ParamGrad>> GroupedGradients(const Program& program,
                                                     const std::vector<ParamGrad>& grads,
                                                     const CommonOptions& options);

// Gradients of rows of tables, and gradients of whole parameters.
struct GradientKinds {
  std::vector<ParamGrad> sparse, dense;
};
GradientKinds SplitGradients(const std::vector<ParamGrad>& grads);

}  // namespace tandem::trainer
