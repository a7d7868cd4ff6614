// Packs and unpacks the contents of a migration: rows and slices with all their data, and a record
// of the pushes that are applied to them.
#pragma once

#include <span>

#include "pserver/shard/shard_state.h"
#include "pserver/state/bucket_move.h"
#include "pserver/state/move_state.h"

namespace tandem::pserver {

// Returns a migration of the buckets in `frozen`, with their contents and the known moves in
// `moves`. Sync: includes the values before the last update.
StatusOr<BucketMigration> PackMigration(ShardState& state, const MoveState& moves,
                                        std::span<const BucketMove> frozen, int target);

// Stores the contents of the migration, but does not serve them. REQUIRES: this server serves no
// bucket of the migration. `idle`: steps have changed nothing on this server so far; in sync mode,
// the server takes part in steps from now on. After an error, some contents of the buckets may be
// on this server.
Status UnpackMigration(const BucketMigration& migration, bool idle, ShardState& state);

}  // namespace tandem::pserver
