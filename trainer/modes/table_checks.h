// Checks for modes that store whole tables in the scope. These modes reject tables whose rows only
// pservers store.
#pragma once

#include <string>

#include "common/base/status.h"
#include "kernels/graph/program.h"

namespace tandem::trainer {

// Rejects table_rules. UNIMPLEMENTED: a table of the program has table_rules; the message names the
// table.
Status RefuseTableRules(const graph::Program& program);

// Rejects a checkpoint's file of table rows. FAILED_PRECONDITION: `path` is not "", so the
// checkpoint has such a file; the message names the file.
Status RefuseTableFile(const std::string& path);

}  // namespace tandem::trainer
