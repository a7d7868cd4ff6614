// A copy-on-write snapshot of the rows of a table. The buckets are copied one after another while
// the table changes. If a row changes before its bucket is copied, the row is saved first.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <span>

#include "common/tables/row_buckets.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/tables/rows/table_row_set.h"

namespace tandem::pserver {

// Call Begin, then CopyBucket for each bucket, then Finish. Abandon may be called at any time.
// Between Begin and Finish, the owner calls BeforeChange or BeforeChangeOfAll before each change of
// rows. Not thread-safe.
class CowTableSnapshot {
 public:
  struct Options {
    uint32_t version = 0;           // version to which the ages of rows are relative
    uint32_t age_max = UINT32_MAX;  // maximum age of a row in the snapshot; older rows are omitted
    std::bitset<kRowBuckets> buckets;
  };

  // `rows`: the rows of the table, which must outlive this object.
  explicit CowTableSnapshot(const TableRowSet& rows);
  ~CowTableSnapshot();

  // Begins a snapshot of the rows in their current state. `head`: the snapshot without its rows.
  // Drops a snapshot in progress.
  void Begin(const Options& options, TableSnapshot head);
  // Copies the bucket if it is part of the snapshot and not copied yet. Returns the copied bytes.
  // REQUIRES: a snapshot is in progress.
  size_t CopyBucket(int bucket);
  // Ends the snapshot and returns it, or returns the first error of a copy. REQUIRES: a snapshot is
  // in progress, and each of its buckets was copied.
  StatusOr<TableSnapshot> Finish();
  void Abandon();

  // The functions BeforeChange and BeforeChangeOfAll save the state that the snapshot needs before
  // rows change. The functions have no effect if no snapshot is in progress. For BeforeChange with
  // `ids`, REQUIRES: each row is in memory or does not exist.
  void BeforeChange(std::span<const uint64_t> ids);
  void BeforeChange(int bucket);  // copies the whole bucket immediately
  void BeforeChangeOfAll();

 private:
  struct Progress;  // the state of the snapshot in progress

  const TableRowSet& rows_;
  std::unique_ptr<Progress> progress_;  // null: no snapshot in progress
};

}  // namespace tandem::pserver
