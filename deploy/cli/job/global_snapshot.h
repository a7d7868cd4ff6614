// The parts of `tandem save` and `tandem restore` for global snapshots (global_snapshot.cc).
#pragma once

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

// Implements `tandem save --snapshot`: all pservers of a running job write one global snapshot.
Status SaveGlobalSnapshot(const ParsedArgs& args);
// Implements `tandem restore --snapshot[=N]`: the pservers return to snapshot N. Without N, they
// return to the newest snapshot that all pservers have.
Status RestoreGlobalSnapshot(const ParsedArgs& args);
// Implements `tandem restore --list`: lists the global snapshots on the disks of the pservers.
Status ListGlobalSnapshots(const ParsedArgs& args);

}  // namespace tandem::deploy
