// The part of `tandem drain` that moves rows between pservers (rebalance.cc).
#pragma once

#include "common/base/status.h"
#include "deploy/launch/options/flag_table.h"

namespace tandem::deploy {

// Implements `tandem drain --pserver=N`: moves all rows of server N to the other servers.
Status DrainPserver(const ParsedArgs& args);

}  // namespace tandem::deploy
