// Reads of a table for readers that are no trainers, and for whole copies of the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pserver/state/changes.h"
#include "pserver/tables/sparse_table.h"

namespace tandem::pserver {

// Changes no row, only the set of rows in memory. Not thread-safe. If rows may be outside memory,
// all functions with a Status may fail. DATA_LOSS, UNAVAILABLE: the rows outside memory cannot be
// read.
class TableReads {
 public:
  // `table` must outlive this object.
  explicit TableReads(SparseTable& table) : table_(table) {}

  // Returns the rows of the served buckets in [bucket, end), in whole buckets, until the page has
  // at least `bytes_max` bytes. The ages of rows are relative to `version`.
  StatusOr<TablePage> Page(int bucket, bool with_slots, uint64_t bytes_max, uint64_t version,
                           int end = kRowBuckets) const;
  // Sorts `ids` into rows that exist and rows that do not. Appends the former with their weights,
  // and the latter, to `changes`.
  Status ReadExisting(std::span<const uint64_t> ids, TableChanges& changes);
  // Returns how many of `ids` are ids of rows that exist. REQUIRES: as for SparseTable::Pull.
  StatusOr<size_t> CountRows(std::span<const uint64_t> ids);
  const ChangedRows& changed() const { return table_.changed_; }

 private:
  SparseTable& table_;
};

}  // namespace tandem::pserver
