// Checks of modes that store tables whole, in the scope, against tables whose rows only pservers
// have.
#pragma once

#include <string>

#include "common/base/status.h"
#include "kernels/graph/program.h"

namespace tandem::trainer {

// UNIMPLEMENTED (names the table): a table has table_rules.
Status RefuseTableRules(const Program& program);

// FAILED_PRECONDITION (names the file): `path`, a checkpoint's file of rows, is not "".
Status RefuseTableFile(const std::string& path);

}  // namespace tandem::trainer
