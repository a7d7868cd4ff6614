#include "trainer/modes/table_checks.h"

#include <variant>

namespace tandem::trainer {

Status RefuseTableRules(const Program& program) {
  for (const Op& op : program.ops) {
    const auto rules = op.attrs.find("table_rules");
    if (op.type != "lookup_table" || rules == op.attrs.end()) continue;
    return Unimplemented(
        "\"%s\" has table_rules (%s): rows come and go on pservers alone, in mode pserver without "
        "geo",
        op.inputs[1].front(), std::get<std::string>(rules->second));
  }
  return OkStatus();
}

Status RefuseTableFile(const std::string& path) {
  if (path.empty()) return OkStatus();
  return FailedPrecondition(
      "%s: tables that lie on pservers alone cannot go on in this mode [TD4021]; hint: go on "
      "with "
      "--servers=N, or begin again with another checkpoint.dir",
      path);
}

}  // namespace tandem::trainer
