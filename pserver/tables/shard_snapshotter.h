// Copies the values of a shard into a snapshot: all at once, or in chunks while the values change.
#pragma once

#include <cstddef>

#include "pserver/state/shard_snapshot.h"
#include "pserver/tables/dense_table.h"
#include "pserver/tables/sparse_tables.h"

namespace tandem::pserver {

// Each function receives a snapshot whose head is filled: configuration, version, base, and one
// entry in `tables` for each table. For a snapshot in chunks, call Begin, then CopyChunk until it
// returns true, then Finish. Abandon may be called at any time. Not thread-safe.
class ShardSnapshotter {
 public:
  struct Position {  // position at which the next chunk begins
    size_t slice = 0, table = 0;
    int bucket = 0;
  };

  // `slices` and `tables` must outlive this object.
  ShardSnapshotter(DenseTable& slices, SparseTables& tables) : slices_(slices), tables_(tables) {}

  // Copies all values into `snapshot` at once.
  Status Copy(ShardSnapshot& snapshot);
  // Copies into `snapshot` only the weights that rows had before the last update.
  void CopyPreviousRows(ShardSnapshot& snapshot) const;

  // Begins a snapshot in chunks. The snapshot has the values at the time of this call: slices and
  // tables copy values before they change the values.
  void Begin(const ShardSnapshot& snapshot);
  // Copies about `bytes` bytes from `position` on, and advances `position`. Returns true if all
  // values are copied.
  StatusOr<bool> CopyChunk(const ShardSnapshot& snapshot, size_t bytes, Position& position);
  // Moves the copies into `snapshot`. REQUIRES: CopyChunk returned true.
  Status Finish(ShardSnapshot& snapshot);
  void Abandon();

 private:
  DenseTable& slices_;
  SparseTables& tables_;
};

}  // namespace tandem::pserver
