// Keeps the rows of a table in two tiers: the rows in use in memory (row_store.h), and all other
// rows outside memory (cold_rows.h). A row in memory may also have a copy outside. The copy is
// ignored while the row is in memory. If the row is unchanged since it was fetched, eviction needs
// no write. The clock algorithm (second chance) selects the rows to evict (Corbato, "A Paging
// Experiment with the Multics System", 1968). The clock hand moves over the row indices and evicts
// each row that was not used since the hand last passed the row.
//
// The rules (decay and removal, RowAccessor::FadeAndStay) do not write the rows outside memory. A
// row outside stores the number of rule runs before it was written. RowTiers applies the later runs
// when it reads the row. A full disk therefore does not change the results of the rules.
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
  // Maximum number of rows that a caller fetches or replaces between two calls of Trim.
  static constexpr size_t kGroup = 4096;

  struct Counts {
    uint64_t fetched = 0;     // number of rows read into memory
    uint64_t written = 0;     // number of rows that were written when they left memory
    double read_seconds = 0;  // time spent waiting for reads from the cold store
  };

  // `hot` has full rows of `floats` values and brief rows of `brief` values. The memory limit of
  // `hot` is the memory of `rows_max` >= 1 full rows. Rows of a call in progress may exceed the
  // limit. `hot` and `cold` must outlive this object.
  RowTiers(const RowAccessor& accessor, int64_t floats, int64_t brief, uint32_t rows_max,
           RowStore& hot, ColdStore& cold);

  // Reads into memory the rows of `ids` that exist only outside memory. The memory may exceed its
  // limit until the next Trim.
  Status Fetch(std::span<const uint64_t> ids);
  // Calls `take` for each row of `ids` that is outside memory, and leaves it there. Reorders `ids`.
  // The counts of the rows include the decay up to now. REQUIRES: no row of `ids` is in memory.
  Status Read(std::vector<uint64_t>& ids, const ColdRows::Take& take) const;
  // Touch marks a row as read. Change marks a row as changed.
  void Touch(uint32_t at) { hot_.Mark(at) |= kUsed; }
  void Change(uint32_t at) { hot_.Mark(at) = kUsed; }
  // Evicts rows if the memory exceeds its limit, until a part of the limit is free. Eviction
  // changes the indices of rows. If rows cannot be written, the rows stay in memory, and Trim
  // returns the error.
  Status Trim();
  // Drops the copies of `ids` outside memory. These rows may also be in memory.
  Status Discard(std::span<const uint64_t> ids);
  // Checks the rows that exist only outside memory. Calls `removed` for each row that the check
  // removes, and returns the number of these rows. The caller calls Shrink before it checks the
  // rows in memory.
  StatusOr<size_t> Shrink(const RowCheck& check,
                          const std::function<void(const ColdRow&)>& removed);
  // Calls `take` for each row of a bucket that exists only outside memory. The ids ascend. The
  // counts of the rows include the decay up to now.
  Status Scan(int bucket, const ColdRows::Take& take) const;

  size_t cold() const { return cold_count_; }      // number of rows that exist only outside
  size_t cold_full() const { return cold_full_; }  // number of full rows that exist only outside
  uint32_t rows_max() const { return rows_max_; }
  const Counts& counts() const { return counts_; }

 private:
  static constexpr uint8_t kUsed = 1;   // the row was used since the clock hand last passed it
  static constexpr uint8_t kClean = 2;  // the row is identical to its copy outside
  // Applies to `row` the rules (decay, removal) that Shrink ran after the row was written. Returns
  // false if the rules remove the row.
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
  std::vector<RowCheck> shrinks_;  // the check of each past Shrink
  Counts counts_;
};

}  // namespace tandem::pserver
