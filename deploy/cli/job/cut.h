// What `tandem save` and `tandem restore` have of cuts over all servers (cut.cc).
#pragma once

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

// `tandem save --cut`: all pservers of a running job write one state.
Status SaveCut(const ParsedArgs& args);
// `tandem restore --cut[=N]`: they go back to that one, or to the newest one that they all have.
Status RestoreCut(const ParsedArgs& args);
// `tandem restore --list`: the cuts that lie on their disks.
Status ListCuts(const ParsedArgs& args);

}  // namespace tandem::deploy
