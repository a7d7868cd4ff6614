// What `tandem save` and `tandem restore` have of cuts over all servers (cut.cc).
#pragma once

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

// `tandem save --cut`: all pservers of a running job write one state.
Status SaveCut(const ParsedArgs& args);
// `tandem restore --cut`: they go back to the newest one that they all have.
Status RestoreCut(const ParsedArgs& args);

}  // namespace tandem::deploy
