// Calls to a shard that move buckets between servers (docs/internals/bucket-migration.md).
#pragma once

#include <string>
#include <vector>

#include "pserver/shard/shard.h"
#include "pserver/state/bucket_move.h"

namespace tandem::pserver {

// Thread-safe, as the shard. Each call may be repeated if its reply was lost. Replies are durable
// after DurableShard::WhenDurable.
class Shard::Migrations {
 public:
  explicit Migrations(Shard& shard) : shard_(shard) {}

  // Freezes the buckets of `request`: their rows are neither read nor changed during the lease.
  // Sync: instead, accepts no pushes of the step. Returns a migration without moves before the
  // step, and on the target. ABORTED: the shard is already at the step. UNAVAILABLE: other buckets
  // are moving, or pushes are held for a global snapshot.
  StatusOr<BucketMigration> Freeze(const std::string& job, const FreezeRequest& request);
  // Stores the contents of the migration without serving them. A migration with a configuration
  // also configures a server that no trainer configures.
  Status Offer(const std::string& job, const BucketMigration& migration);
  // Makes the target the owner of the frozen buckets. ABORTED: the lease has ended.
  StatusOr<BucketMap> Release(const std::string& job, const std::vector<BucketMove>& moves);
  // `refuse`: the server is leaving and accepts no more buckets; false: it stays.
  Status Refuse(const std::string& job, bool refuse);
  // Learns the moves in `known` and serves offered buckets that were released. `min_step`: progress
  // of the caller, as in PullQuery.
  StatusOr<MapAnswer> Exchange(const CallerId& caller, bool observer, const BucketMap& known,
                               uint64_t min_step = 0);

 private:
  // Configures the shard by the migration, without buckets. On an error, nothing changes.
  Status BeginWith(const BucketMigration& migration) TD_REQUIRES(shard_.mu_);

  Shard& shard_;
};

}  // namespace tandem::pserver
