// The parts of `tandem save` and `tandem restore` for global snapshots (global_snapshot.cc).
#pragma once

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

// `tandem save --snapshot`: all pservers of a running job write one global snapshot.
Status SaveGlobalSnapshot(const ParsedArgs& args);
// `tandem restore --snapshot[=N]`: all pservers return to snapshot N, or to the newest one that all
// have.
Status RestoreGlobalSnapshot(const ParsedArgs& args);
// `tandem restore --list`: lists the global snapshots on the pservers' disks.
Status ListGlobalSnapshots(const ParsedArgs& args);

}  // namespace tandem::deploy
