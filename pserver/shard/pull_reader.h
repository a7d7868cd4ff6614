// Decides when the server can reply to a pull, and reads the values for the reply.
#pragma once

#include "pserver/shard/bucket_migrations.h"
#include "pserver/shard/shard_state.h"
#include "pserver/state/pull.h"
#include "pserver/state/shard_counters.h"

namespace tandem::pserver {

// Reads the state of the shard. Changes only the pulled version of a trainer, and the set of rows
// in memory. Not thread-safe (the shard's lock guards it).
class PullReader {
 public:
  // All arguments must outlive this object.
  PullReader(ShardState& state, const BucketMigrations& migrations, ShardCounters& counters)
      : state_(state), migrations_(migrations), counters_(counters) {}

  // Checks the names, ranges and row ids of a pull. INVALID_ARGUMENT, NOT_FOUND: the pull names
  // invalid rows or unknown variables. OUT_OF_RANGE: the values are on another server. REQUIRES:
  // the shard is configured.
  Status Check(const PullQuery& query) const;
  // OUT_OF_RANGE: a slice of the pull, or all rows of this server, have moved to other servers.
  Status CheckHere(const PullQuery& query) const;
  // OUT_OF_RANGE: the pull is for rows, and all rows of this server have moved to other servers.
  // Trainers push no rows to this server any more, so its version may never reach the version that
  // the pull waits for.
  Status CheckRowsHere(const PullQuery& query) const;
  // Returns whether this server has reached the version and the steps that the pull waits for.
  bool CanAnswer(const PullQuery& query) const;
  // Reads the values of the pull. FAILED_PRECONDITION: the requested version is neither the current
  // nor the previous version. REQUIRES: CanAnswer(query).
  StatusOr<PullResult> Read(const PullQuery& query);

 private:
  Status AddSlice(const PullQuery& query, int slice, int64_t offset, int64_t numel,
                  PullResult& result);
  Status AddSlices(const PullQuery& query, PullResult& result);
  Status AddRows(const PullRows& rows, PullResult& result);
  // Returns whether the result has the values before the last update.
  bool IsPrevious(const PullResult& result) const { return result.version != state_.version; }

  ShardState& state_;
  const BucketMigrations& migrations_;
  ShardCounters& counters_;
};

}  // namespace tandem::pserver
