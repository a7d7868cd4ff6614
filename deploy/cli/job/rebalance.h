// What `tandem drain` has of moving rows (rebalance.cc).
#pragma once

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

// `tandem drain --pserver=N`: all rows of that server go to the others.
Status DrainPserver(const ParsedArgs& args);

}  // namespace tandem::deploy
