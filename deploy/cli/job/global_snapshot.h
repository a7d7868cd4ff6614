// The parts of `tandem save` and `tandem restore` for global snapshots (global_snapshot.cc).
#pragma once

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

// Implements `tandem save --snapshot`: all pservers of a running job write one global snapshot.
Status SaveGlobalSnapshot(const ParsedArgs& args);
// Implements `tandem restore --snapshot[=N]`: pservers return to snapshot N, or to the newest that
// all have.
Status RestoreGlobalSnapshot(const ParsedArgs& args);
// Implements `tandem restore --list`: lists the global snapshots on the disks of the pservers.
Status ListGlobalSnapshots(const ParsedArgs& args);

}  // namespace tandem::deploy
