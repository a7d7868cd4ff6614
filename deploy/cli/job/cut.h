// The parts of `tandem save` and `tandem restore` for global snapshots (cut.cc).
#pragma once

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

// `tandem save --cut`: all pservers of a running job write one global snapshot.
Status SaveCut(const ParsedArgs& args);
// `tandem restore --cut[=N]`: all pservers return to snapshot N, or to the newest one that all
// have.
Status RestoreCut(const ParsedArgs& args);
// `tandem restore --list`: lists the global snapshots on the pservers' disks.
Status ListCuts(const ParsedArgs& args);

}  // namespace tandem::deploy
