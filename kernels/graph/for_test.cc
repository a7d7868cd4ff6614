#include "kernels/graph/for_test.h"

#include <algorithm>

namespace tandem::graph {

Program ForTest(Program program) {
  for (ops::Op& op : program.ops) {
    const auto& attrs = ops::FindOp(op.type)->attrs;
    const bool has = std::any_of(attrs.begin(), attrs.end(), [](const ops::AttrDef& attr) {
      return std::string_view(attr.name) == "is_test";
    });
    if (has) op.attrs["is_test"] = true;
  }
  return program;
}

}  // namespace tandem::graph
