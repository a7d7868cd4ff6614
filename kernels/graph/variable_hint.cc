#include "kernels/graph/variable_hint.h"

#include <vector>

#include "common/base/nearest.h"
#include "kernels/graph/program.h"

namespace tandem::graph {

std::string OrVariableMeant(const Program& program, std::string_view name) {
  std::vector<std::string> names;
  for (const Var& var : program.vars()) names.push_back(var.name);
  return OrDidYouMean(name, names);
}

}  // namespace tandem::graph
