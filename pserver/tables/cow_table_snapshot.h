// A copy-on-write snapshot of the rows of a table. It is copied bucket by bucket while the table
// changes. A row of a bucket that is not copied yet is saved before its first change.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <span>

#include "common/tables/row_buckets.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/tables/table_row_set.h"

namespace tandem::pserver {

// Call Begin, then CopyBucket for each bucket, then Finish; or Abandon at any time. Between Begin
// and Finish, the owner calls a BeforeChange before each change of rows. Not thread-safe.
class CowTableSnapshot {
 public:
  struct Options {
    uint32_t version = 0;           // age 0 of the rows
    uint32_t age_max = UINT32_MAX;  // omits rows whose last update is longer ago
    std::bitset<kRowBuckets> buckets;
  };

  // `rows`: the rows of the table; must outlive this.
  explicit CowTableSnapshot(const TableRowSet& rows);
  ~CowTableSnapshot();

  // Begins a snapshot of the rows as they are now. `head`: the snapshot without its rows. Replaces
  // the snapshot in progress.
  void Begin(const Options& options, TableSnapshot head);
  // Copies the bucket if it is part of the snapshot and not copied yet; returns its bytes.
  // REQUIRES: a snapshot is in progress.
  size_t CopyBucket(int bucket);
  // Ends the snapshot and returns it. An error is the first one of a copy. REQUIRES: a snapshot is
  // in progress, and each of its buckets was copied.
  StatusOr<TableSnapshot> Finish();
  void Abandon();

  // Saves what the snapshot needs before rows change. They have no effect if no snapshot is in
  // progress. REQUIRES of the first: each row is in memory or does not exist.
  void BeforeChange(std::span<const uint64_t> ids);
  void BeforeChange(int bucket);  // copies the whole bucket
  void BeforeChangeOfAll();

 private:
  struct Progress;  // the state of one snapshot

  const TableRowSet& rows_;
  std::unique_ptr<Progress> progress_;  // null: no snapshot in progress
};

}  // namespace tandem::pserver
