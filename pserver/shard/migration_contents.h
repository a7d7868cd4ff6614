// The contents of a migration: rows and slices with all their data, and which pushes are applied to
// them.
#pragma once

#include <span>

#include "pserver/shard/shard_state.h"
#include "pserver/state/bucket_move.h"
#include "pserver/state/move_state.h"

namespace tandem::pserver {

// Returns a migration with the contents of the buckets in `frozen` and with the moves in `moves`.
// Sync: includes the values before the last update.
StatusOr<BucketMigration> PackMigration(ShardState& state, const MoveState& moves,
                                        std::span<const BucketMove> frozen, int target);

// Stores the contents, but does not serve them. REQUIRES: no bucket of the migration is on this
// server. `idle`: so far, steps changed nothing on this server; in sync mode, it takes part in
// steps from now on. After an error, some contents of the buckets may be on this server.
Status UnpackMigration(const BucketMigration& migration, bool idle, ShardState& state);

}  // namespace tandem::pserver
