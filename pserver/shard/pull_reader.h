// Answers pulls: when a pull can be answered, and the values that answer it.
#pragma once

#include "pserver/shard/bucket_migrations.h"
#include "pserver/shard/shard_counters.h"
#include "pserver/shard/shard_state.h"
#include "pserver/state/pull.h"

namespace tandem::pserver {

// Changes only what a pull changes: the version that its trainer pulled, and the tiers of rows. Not
// thread-safe (the shard's lock guards it).
class PullReader {
 public:
  // All must outlive it.
  PullReader(ShardState& state, const BucketMigrations& migrations, ShardCounters& counters)
      : state_(state), migrations_(migrations), counters_(counters) {}

  // Reports unknown variables, invalid rows, and values of other servers (OUT_OF_RANGE). REQUIRES:
  // the shard is configured.
  Status Check(const PullQuery& query) const;
  // OUT_OF_RANGE: slices or all rows of the pull have moved away.
  Status CheckHere(const PullQuery& query) const;
  // OUT_OF_RANGE: the pull is for rows and all rows have moved away. Trainers no longer push to
  // such a server, so its version does not change.
  Status CheckRowsHere(const PullQuery& query) const;
  // Whether the version and the steps that the pull waits for are here.
  bool CanAnswer(const PullQuery& query) const;
  // REQUIRES: CanAnswer(query).
  StatusOr<PullResult> Read(const PullQuery& query);

 private:
  Status AddSlice(const PullQuery& query, int slice, int64_t offset, int64_t numel,
                  PullResult& result);
  Status AddSlices(const PullQuery& query, PullResult& result);
  Status AddRows(const PullRows& rows, PullResult& result);
  // The result is of the version before the last update.
  bool IsPrevious(const PullResult& result) const { return result.version != state_.version; }

  ShardState& state_;
  const BucketMigrations& migrations_;
  ShardCounters& counters_;
};

}  // namespace tandem::pserver
