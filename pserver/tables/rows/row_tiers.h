// Keeps the rows of a table in two tiers: the rows in use in memory (row_store.h), and all other
// rows outside memory (cold_rows.h). A row in memory may have a copy outside, which is ignored. If
// the row is unchanged since it was fetched, the row can leave memory without a write. The clock
// algorithm (second chance) selects the rows to evict (Corbato, "A Paging Experiment with the
// Multics System", 1968). The clock hand passes over the row indices and evicts rows that were not
// used since the hand last passed them.
//
// Rules that scan all rows (table_rules.h) only read the rows outside. A row outside stores how
// often the rules had been applied to the row when it was written. RowTiers applies the later rules
// when it reads the row. The rules never write rows, so a full disk does not change their results.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pserver/tables/rows/cold_rows.h"
#include "pserver/tables/rows/row_accessor.h"
#include "pserver/tables/rows/row_store.h"

namespace tandem::pserver {

// Moves rows of a table between memory and a cold store. Not thread-safe.
class RowTiers {
 public:
  // Maximum number of rows for which a caller should make room at once.
  static constexpr size_t kGroup = 4096;

  struct Counts {
    uint64_t fetched = 0;     // number of rows read into memory
    uint64_t written = 0;     // number of rows that were written when they left memory
    double read_seconds = 0;  // time spent waiting for reads from the cold store
  };

  // `hot` has full rows of `floats` values and brief rows of `brief` values. Its limit is the
  // memory of `rows_max` >= 1 full rows, which is exceeded only if necessary. `hot` and `cold` must
  // outlive this object.
  RowTiers(const RowAccessor& accessor, int64_t floats, int64_t brief, uint32_t rows_max,
           RowStore& hot, ColdStore& cold);

  // Reads into memory the rows of `ids` that exist only outside. The memory may then exceed its
  // limit.
  Status Fetch(std::span<const uint64_t> ids);
  // Touch marks a row as read. Change marks a row as changed.
  void Touch(uint32_t at) { hot_.Mark(at) |= kUsed; }
  void Change(uint32_t at) { hot_.Mark(at) = kUsed; }
  // If the memory exceeds its limit, evicts rows until a part of the limit is free. Indices of rows
  // change. If rows cannot be written, the rows stay in memory, and Trim returns the cause.
  Status Trim();
  // Drops the copies of `ids` outside memory. These rows may also be in memory.
  Status Discard(std::span<const uint64_t> ids);
  // Removes the rows that exist only outside and that the rules remove at `version`. Calls
  // `removed` for each removed row and returns their number. Call it before the rows in memory are
  // scanned.
  StatusOr<size_t> Shrink(uint32_t version, const std::function<void(const ColdRow&)>& removed);
  // Calls `take` for each row of a bucket that exists only outside, by ascending ids, with its
  // current use data.
  Status Scan(int bucket, const ColdRows::Take& take) const;

  size_t cold() const { return cold_count_; }      // number of rows that exist only outside
  size_t cold_full() const { return cold_full_; }  // number of full rows that exist only outside
  uint32_t rows_max() const { return rows_max_; }
  const Counts& counts() const { return counts_; }

 private:
  static constexpr uint8_t kUsed = 1;   // the row was used since the clock hand last passed it
  static constexpr uint8_t kClean = 2;  // the row is identical to its copy outside
  // Applies to `row` the rules that ran after the row was written. Returns false if the rules
  // remove the row.
  bool Stays(ColdRow& row) const;
  bool IsHot(uint64_t id) const;
  Status Evict(size_t keep_bytes);
  void CountCold(bool brief, int more);

  const RowAccessor accessor_;
  const uint32_t rows_max_;
  const size_t bytes_max_;  // maximum memory of the rows in bytes
  RowStore& hot_;
  const std::unique_ptr<ColdRows> cold_;
  size_t cold_count_ = 0, cold_full_ = 0;
  uint32_t hand_ = 0;
  std::vector<uint32_t> shrinks_;  // version of each past Shrink
  Counts counts_;
};

}  // namespace tandem::pserver
