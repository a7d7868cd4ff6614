// Reads the changes of a table since the position of a reader.
#pragma once

#include "pserver/shard/bucket_migrations.h"
#include "pserver/shard/shard_state.h"
#include "pserver/state/changes.h"

namespace tandem::pserver {

// Reads the state of the shard, and changes nothing. Not thread-safe (the shard's lock guards it).
class ChangeReader {
 public:
  // All arguments must outlive this object.
  ChangeReader(ShardState& state, const BucketMigrations& migrations)
      : state_(state), migrations_(migrations) {}

  // NOT_FOUND: the job has no such table. UNIMPLEMENTED: the optimizer of the table also changes
  // rows without a gradient. FAILED_PRECONDITION: this server remembers no changes. UNAVAILABLE:
  // the reader is ahead of this server. REQUIRES: the shard is initialised.
  StatusOr<TableChanges> Read(const ChangesQuery& query);

 private:
  // Adds all rows of the first buckets of the query that fit.
  Status AddBuckets(const ChangesQuery& query, SparseTable& table, TableChanges& changes) const;
  // Adds the rows that changed since the position of the reader, without the rows of added buckets.
  Status AddChanged(const ChangesQuery& query, SparseTable& table, TableChanges& changes) const;
  void AddServed(const SparseTable& table, TableChanges& changes) const;

  ShardState& state_;
  const BucketMigrations& migrations_;
};

}  // namespace tandem::pserver
