// Converts and groups the gradients that a training mode sends.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"
#include "trainer/modes/common_options.h"

namespace tandem::trainer {

// Makes sparse gradients dense (DensifyAll) and returns all gradients. Rank 0 logs a line if any
// gradient changes.
StatusOr<std::vector<graph::ParamGrad>> DensifyGradients(graph::Program& program,
                                                         const std::vector<graph::ParamGrad>& grads,
                                                         const CommonOptions& options);

// Divides the gradients into groups. The gradients of a group share one collective call. Without
// fuse_all_reduce each gradient is a group.
std::vector<std::vector<graph::ParamGrad>> GroupedGradients(
    const graph::Program& program, const std::vector<graph::ParamGrad>& grads,
    const CommonOptions& options);

// `sparse`: gradients of rows of tables. `dense`: gradients of whole parameters.
struct GradientKinds {
  std::vector<graph::ParamGrad> sparse, dense;
};
GradientKinds SplitGradients(const std::vector<graph::ParamGrad>& grads);

}  // namespace tandem::trainer
