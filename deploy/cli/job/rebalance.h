// The part of `tandem drain` that moves rows (rebalance.cc).
#pragma once

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

// `tandem drain --pserver=N`: moves all rows of that server to the other servers.
Status DrainPserver(const ParsedArgs& args);

}  // namespace tandem::deploy
