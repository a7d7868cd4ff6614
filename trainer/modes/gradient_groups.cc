#include "trainer/modes/gradient_groups.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::trainer {

StatusOr<std::vector<graph::ParamGrad>> DensifyGradients(graph::Program& program,
                                                         const std::vector<graph::ParamGrad>& grads,
                                                         const CommonOptions& options) {
  const auto sparse = std::count_if(
      grads.begin(), grads.end(), [](const graph::ParamGrad& pair) { return !pair.rows.empty(); });
  LOG_IF(INFO, sparse > 0 && options.leader())
      << sparse
      << " sparse gradients are sent as dense gradients, because this mode sends only dense ones, "
         "with the "
      << "same result";
  TD_ASSIGN_OR_RETURN(std::vector<graph::ParamGrad> dense, graph::DensifyAll(program, grads));
  DCHECK_EQ(dense.size(), grads.size());
  return dense;
}

std::vector<std::vector<graph::ParamGrad>> GroupedGradients(
    const graph::Program& program, const std::vector<graph::ParamGrad>& grads,
    const CommonOptions& options) {
  if (options.fuse_all_reduce) return graph::GroupGradients(program, grads, options.group_rule);
  std::vector<std::vector<graph::ParamGrad>> groups;
  for (const graph::ParamGrad& pair : grads) groups.push_back({pair});
  return groups;
}

GradientKinds SplitGradients(const std::vector<graph::ParamGrad>& grads) {
  GradientKinds kinds;
  for (const graph::ParamGrad& pair : grads) {
    (pair.rows.empty() ? kinds.dense : kinds.sparse).push_back(pair);
  }
  DCHECK_EQ(kinds.sparse.size() + kinds.dense.size(), grads.size());
  return kinds;
}

}  // namespace tandem::trainer
