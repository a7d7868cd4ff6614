// Rows of a table in two tiers: those in use in memory (row_store.h), all others outside
// (cold_rows.h). A row that is in memory may have an older copy outside, which counts for nothing;
// so a row that was only read since it came in leaves without being written. Which rows leave is
// chosen by a clock with a second chance (Corbato, "A Paging Experiment with the Multics System",
// 1968): a hand goes round the places and takes those that nobody used since it passed.
//
// Rules that look through all rows (table_rules.h) only read what is outside: a copy carries how
// often they had been applied to it, and what they did since follows from that. Nothing has to be
// written for them, so a full disk changes none of their results.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pserver/tables/cold_rows.h"
#include "pserver/tables/row_accessor.h"
#include "pserver/tables/row_store.h"

namespace tandem {

// Not thread-safe.
class RowTiers {
 public:
  static constexpr size_t kGroup = 4096;  // rows for which to make room together

  struct Counts {
    uint64_t fetched = 0;     // rows that came in
    uint64_t written = 0;     // rows that went out and were not there already
    double read_seconds = 0;  // waited for them
  };

  // `hot` holds rows of `floats` values, brief ones of `brief`; if possible no more than what
  // `rows_max` >= 1 full ones take. `hot` and `cold` must outlive this.
  RowTiers(const RowAccessor& accessor, int64_t floats, int64_t brief, uint32_t rows_max,
           RowStore& hot, ColdStore& cold);

  // Brings in those of `ids` that are outside. May go beyond the bound.
  Status Fetch(std::span<const uint64_t> ids);
  // Marks: of a row that was read, and of one that was changed.
  void Touch(uint32_t at) { hot_.Mark(at) |= kUsed; }
  void Change(uint32_t at) { hot_.Mark(at) = kUsed; }
  // Takes rows out of memory while there are more than the bound, then some more. What cannot be
  // written stays, and the status says why. Places change.
  Status Trim();
  // Forgets what is outside of `ids`, in whatever state. They may be in memory too.
  Status Discard(std::span<const uint64_t> ids);
  // Before those in memory: removes rows outside that the rules remove now. Gives their number;
  // `removed` gets each.
  StatusOr<size_t> Shrink(uint32_t version, const std::function<void(const ColdRow&)>& removed);
  // Rows of a bucket that are outside alone, by ascending ids, as they are now.
  Status Scan(int bucket, const ColdRows::Take& take) const;

  size_t cold() const { return cold_count_; }      // rows that are outside alone,
  size_t cold_full() const { return cold_full_; }  // ... of which are not brief
  uint32_t rows_max() const { return rows_max_; }
  const Counts& counts() const { return counts_; }

 private:
  static constexpr uint8_t kUsed = 1;   // since the hand passed
  static constexpr uint8_t kClean = 2;  // the copy outside is the same
  // What the rules did to a copy since it was written; false: it is gone.
  bool Stays(ColdRow& row) const;
  bool IsHot(uint64_t id) const;
  Status Evict(size_t keep_bytes);
  void CountCold(bool brief, int more);

  const RowAccessor accessor_;
  const uint32_t rows_max_;
  const size_t bytes_max_;  // of them
  RowStore& hot_;
  const std::unique_ptr<ColdRows> cold_;
  size_t cold_count_ = 0, cold_full_ = 0;
  uint32_t hand_ = 0;
  std::vector<uint32_t> shrinks_;  // their versions
  Counts counts_;
};

}  // namespace tandem
