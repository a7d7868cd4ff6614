// The flags of tandemrun.
#pragma once

#include <vector>

#include "deploy/launch/options/flag_table.h"

namespace tandem::deploy {

// Returns the flags of tandemrun, for parsing and for --help.
const std::vector<FlagSpec>& LaunchFlags();

}  // namespace tandem::deploy
