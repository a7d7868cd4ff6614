// Keeps the rows of a table in two tiers: rows in use in memory (row_store.h), all other rows
// outside (cold_rows.h). A row in memory may have an older copy outside, which is ignored. A row
// that was only read since it was fetched can therefore leave memory without a write. A clock with
// a second chance selects the rows to evict (Corbato, "A Paging Experiment with the Multics
// System", 1968). The hand passes over the row indices and evicts rows that were not used since its
// last pass.
//
// Rules that scan all rows (table_rules.h) only read the rows outside. A copy stores how often the
// rules were applied to it, and the effect of later applications follows from that number. The
// rules never write rows, so a full disk does not change their results.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pserver/tables/rows/cold_rows.h"
#include "pserver/tables/rows/row_accessor.h"
#include "pserver/tables/rows/row_store.h"

namespace tandem::pserver {

// Moves rows between the two tiers. Not thread-safe.
class RowTiers {
 public:
  static constexpr size_t kGroup = 4096;  // rows for which to make room together

  struct Counts {
    uint64_t fetched = 0;     // rows read into memory
    uint64_t written = 0;     // rows evicted with a write
    double read_seconds = 0;  // time spent waiting for reads
  };

  // `hot` holds full rows of `floats` values and brief rows of `brief` values. It holds no more
  // than the memory of `rows_max` >= 1 full rows if possible. `hot` and `cold` must outlive this.
  RowTiers(const RowAccessor& accessor, int64_t floats, int64_t brief, uint32_t rows_max,
           RowStore& hot, ColdStore& cold);

  // Reads the rows of `ids` that are outside into memory. May exceed the limit.
  Status Fetch(std::span<const uint64_t> ids);
  // Mark a row as read, or as changed.
  void Touch(uint32_t at) { hot_.Mark(at) |= kUsed; }
  void Change(uint32_t at) { hot_.Mark(at) = kUsed; }
  // Evicts rows if memory exceeds the limit, then some more. Indices of rows change. Rows that
  // cannot be written stay in memory, and the status gives the cause.
  Status Trim();
  // Drops the copies of `ids` outside, whatever their state. The rows may also be in memory.
  Status Discard(std::span<const uint64_t> ids);
  // Removes rows outside that the rules remove now. Call it before rows in memory are scanned.
  // Returns the number of removed rows; calls `removed` for each.
  StatusOr<size_t> Shrink(uint32_t version, const std::function<void(const ColdRow&)>& removed);
  // Calls `take` for each row of a bucket that exists only outside, by ascending ids, in its
  // current state.
  Status Scan(int bucket, const ColdRows::Take& take) const;

  size_t cold() const { return cold_count_; }      // rows that exist only outside
  size_t cold_full() const { return cold_full_; }  // the full rows among them
  uint32_t rows_max() const { return rows_max_; }
  const Counts& counts() const { return counts_; }

 private:
  static constexpr uint8_t kUsed = 1;   // since the hand passed
  static constexpr uint8_t kClean = 2;  // the copy outside is identical
  // Applies the rules that ran since the copy was written. Returns false if they removed the row.
  bool Stays(ColdRow& row) const;
  bool IsHot(uint64_t id) const;
  Status Evict(size_t keep_bytes);
  void CountCold(bool brief, int more);

  const RowAccessor accessor_;
  const uint32_t rows_max_;
  const size_t bytes_max_;  // limit of the rows in memory
  RowStore& hot_;
  const std::unique_ptr<ColdRows> cold_;
  size_t cold_count_ = 0, cold_full_ = 0;
  uint32_t hand_ = 0;
  std::vector<uint32_t> shrinks_;  // versions of the past shrinks
  Counts counts_;
};

}  // namespace tandem::pserver
