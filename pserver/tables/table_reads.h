// Reads of a table for readers that are no trainers, and for whole copies of the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pserver/state/changes.h"
#include "pserver/tables/sparse_table.h"

namespace tandem::pserver {

// Changes no row, and leaves each row where it is, in memory or outside. Not thread-safe. If rows
// may be outside memory, all functions with a Status may fail. DATA_LOSS, UNAVAILABLE: the rows
// outside memory cannot be read.
class TableReads {
 public:
  // `table` must outlive this object.
  explicit TableReads(SparseTable& table) : table_(table) {}

  // Returns the rows of the served buckets in [bucket, end), in whole buckets, until the page has
  // at least `bytes_max` bytes. The ages of rows are relative to `version`.
  StatusOr<TablePage> Page(int bucket, bool with_slots, uint64_t bytes_max, uint64_t version,
                           int end = kRowBuckets) const;
  // Appends the ids and weights of the rows of a bucket to `out`, without rows with a score below
  // `score_min`. Returns the number of rows of the bucket, which all were looked at.
  StatusOr<size_t> AppendBucket(int bucket, std::optional<float> score_min, RowValues& out) const;
  // Sorts `ids` into rows that exist and rows that do not. Appends the former with their weights,
  // and the latter, to `changes`. Rows with a score below `score_min` count as rows that do not
  // exist.
  Status ReadExisting(std::span<const uint64_t> ids, std::optional<float> score_min,
                      TableChanges& changes);
  // Returns those of `ids` that exist, in any order, with their slots. The ages of rows are
  // relative to `version`.
  StatusOr<TablePage> ReadRows(std::span<const uint64_t> ids, uint64_t version) const;
  // Returns how many of `ids` are ids of rows that exist. REQUIRES: as for SparseTable::Pull.
  StatusOr<size_t> CountRows(std::span<const uint64_t> ids);
  size_t rows() const { return table_.rows_.size(); }  // number of rows that exist
  const ChangedRows& changed() const { return table_.changed_; }

 private:
  // Rows of one group of ids.
  struct Group {
    std::vector<uint32_t> at;  // by the position in the group; kNone: the row is not in memory
    // Rows outside memory, by their ids: their scores, and the beginnings of their weights in
    // `values`.
    absl::flat_hash_map<uint64_t, std::pair<float, size_t>> cold;
    std::vector<float> values;
  };
  Status Find(std::span<const uint64_t> ids, Group& group) const;

  SparseTable& table_;
};

}  // namespace tandem::pserver
