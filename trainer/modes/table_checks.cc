#include "trainer/modes/table_checks.h"

#include <variant>

namespace tandem::trainer {

Status RefuseTableRules(const graph::Program& program) {
  for (const ops::Op& op : program.ops) {
    const auto rules = op.attrs.find("table_rules");
    if (op.type != "lookup_table" || rules == op.attrs.end()) continue;
    return Unimplemented(
        "table \"%s\" has table_rules (%s), which are supported only in mode pserver without geo "
        "and localsgd [TD1107]",
        op.inputs[1].front(), std::get<std::string>(rules->second));
  }
  return OkStatus();
}

Status RefuseTableFile(const std::string& path) {
  if (path.empty()) return OkStatus();
  return FailedPrecondition(
      "%s: the checkpoint has tables that only pservers store, which this mode does not support "
      "[TD4021]; hint: resume with --servers=N, or start with another checkpoint.dir",
      path);
}

}  // namespace tandem::trainer
