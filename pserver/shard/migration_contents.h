// The contents of a migration: rows and slices with all their data, and the marks of the pushes
// applied to them.
#pragma once

#include <span>

#include "pserver/shard/shard_state.h"
#include "pserver/state/bucket_move.h"
#include "pserver/state/move_state.h"

namespace tandem::pserver {

// Copies the contents of the buckets in `frozen`, with the known moves. Sync: includes the values
// before the last update.
StatusOr<BucketMigration> PackMigration(ShardState& state, const MoveState& moves,
                                        std::span<const BucketMove> frozen, int target);

// Stores the contents without serving them. REQUIRES: no bucket of the migration is here. `idle`:
// steps changed nothing on this server; in sync mode it takes part in the steps from that of the
// migration on. On an error, contents of its buckets may be here.
Status UnpackMigration(const BucketMigration& migration, bool idle, ShardState& state);

}  // namespace tandem::pserver
