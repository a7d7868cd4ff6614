// Calls to a shard that move buckets between servers (docs/internals/bucket-migration.md).
#pragma once

#include <string>
#include <vector>

#include "pserver/shard/shard.h"
#include "pserver/state/bucket_move.h"

namespace tandem::pserver {

// Thread-safe, like Shard. If the reply of a call was lost, the client may repeat the call. The
// effect of a call is durable after DurableShard::WhenDurable.
class Shard::Migrations {
 public:
  explicit Migrations(Shard& shard) : shard_(shard) {}

  // Freezes the buckets of `request`: during the lease, no call reads or changes their rows. In
  // sync mode, the server instead rejects pushes of the step in `request`. Returns the migration.
  // The migration has no moves if the shard has not reached the step, or if the shard is the
  // target. ABORTED: the shard was already at the step when the freeze began. UNAVAILABLE: other
  // buckets are moving, or pushes are held for a global snapshot.
  StatusOr<BucketMigration> Freeze(const std::string& job, const FreezeRequest& request);
  // Stores the contents of the migration, but does not serve them yet. If no trainer has configured
  // the server, the configuration in the migration configures the server.
  Status Offer(const std::string& job, const BucketMigration& migration);
  // Makes the target the owner of the frozen buckets. Returns the moves that this server knows.
  // ABORTED: the lease has ended.
  StatusOr<BucketMap> Release(const std::string& job, const std::vector<BucketMove>& moves);
  // `refuse` true: the server is leaving and accepts no more buckets; false: the server accepts
  // buckets again.
  Status Refuse(const std::string& job, bool refuse);
  // Learns the moves in `known`, and serves the offered buckets that their source released.
  // `min_step`: number of steps that the caller has pushed, as in PullQuery.
  StatusOr<MapAnswer> Exchange(const CallerId& caller, bool observer, const BucketMap& known,
                               uint64_t min_step = 0);
  // Returns the moves that the server knows, and its buckets. Changes nothing.
  StatusOr<MapAnswer> Look(const std::string& job);

 private:
  // Configures the shard as `migration` says, but adds no buckets. On an error, nothing changes.
  Status BeginWith(const BucketMigration& migration) TD_REQUIRES(shard_.mu_);

  Shard& shard_;
};

}  // namespace tandem::pserver
