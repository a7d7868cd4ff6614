#include "trainer/modes/gradient_groups.h"

#include <algorithm>
#include <variant>

#include "common/base/check.h"

namespace tandem::trainer {

namespace {

// Returns whether an update of a row depends on whether the row has a gradient in the step.
bool DependsOnRows(const graph::OptimizerSpec& optimizer) {
  const auto is_set = [&optimizer](const char* name) {
    const auto found = optimizer.attrs.find(name);
    if (found == optimizer.attrs.end()) return false;
    if (const bool* on = std::get_if<bool>(&found->second)) return *on;
    const double* value = std::get_if<double>(&found->second);
    return value != nullptr && *value != 0;
  };
  return is_set("lazy_mode") || is_set("l1_decay") || is_set("l2_decay");
}

}  // namespace

StatusOr<std::vector<graph::ParamGrad>> DensifyGradients(graph::Program& program,
                                                         const std::vector<graph::ParamGrad>& grads,
                                                         const CommonOptions& options) {
  const auto sparse = std::count_if(
      grads.begin(), grads.end(), [](const graph::ParamGrad& pair) { return !pair.rows.empty(); });
  if (sparse > 0 && options.leader()) {
    constexpr char kText[] =
        " sparse gradients are sent as dense gradients, because this mode sends only dense ones";
    LOG_IF(INFO, !DependsOnRows(options.optimizer)) << sparse << kText << ", with the same result";
    LOG_IF(WARNING, DependsOnRows(options.optimizer))
        << sparse << kText
        << "; so lazy_mode, l1_decay and l2_decay concern all rows of a table, and not only the "
           "rows of the batch as in other modes";
  }
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
