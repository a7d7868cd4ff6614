// The parts of `tandem save` and `tandem restore` for global snapshots (global_snapshot.cc).
#pragma once

#include "common/base/clock.h"
#include "common/base/status.h"
#include "deploy/launch/options/flag_table.h"

namespace tandem::deploy {

// Implements `tandem save --snapshot`: all pservers of a running job write one global snapshot.
Status SaveGlobalSnapshot(const ParsedArgs& args);
// Returns the time of the snapshot after the one that was due at `due` and begins now: the first of
// due + every, due + 2 * every and so on that is later than `now`. So a slow snapshot is followed
// by at most one that is late. REQUIRES: every > 0, due <= now.
Time NextSnapshotTime(Time due, Duration every, Time now);
// Implements `tandem restore --snapshot[=N]`: the pservers return to snapshot N. Without N, they
// return to the newest snapshot that all pservers have.
Status RestoreGlobalSnapshot(const ParsedArgs& args);
// Implements `tandem restore --list`: lists the global snapshots on the disks of the pservers.
Status ListGlobalSnapshots(const ParsedArgs& args);

}  // namespace tandem::deploy
