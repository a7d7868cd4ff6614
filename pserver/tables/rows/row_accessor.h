// The accessor of a table: the layout of its rows and the use of their counts. TableRules::accessor
// selects the layout of a row, the contents of a push, and the effect of the counts. A new accessor
// is a new case in this class and in TableRules. All other code knows only that a row has counts
// and one of two lengths.
//
// A full row has `dim` weights, and `dim` values of each optimizer slot. A brief row (not extended
// yet) has only the first columns_at_first() weights, and as many values of each slot. The missing
// weights read as zeros, and gradients for them are dropped.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/tables/table_rules.h"
#include "pserver/state/row_checks.h"
#include "pserver/tables/rows/row_store.h"

namespace tandem::pserver {

class RowAccessor {
 public:
  RowAccessor(const TableRules& rules, int64_t dim) : rules_(rules), dim_(dim) {}

  // ---- Layout -----------------------------------------------------------------------------------
  // Number of weights of a new row. A full row has `dim` weights.
  int64_t columns_at_first() const { return ctr() ? 1 : dim_; }
  bool extends() const { return columns_at_first() < dim_; }
  size_t columns(bool brief) const {
    return static_cast<size_t>(brief ? columns_at_first() : dim_);
  }
  // Number of counts that precede each gradient in a push. A push has counts() + dim numbers for
  // each row.
  int64_t counts() const { return rules_.counts(); }

  // ---- Update -----------------------------------------------------------------------------------
  // Checks the counts of a push. `pushed` has counts() + dim numbers for each of `ids`. Counts that
  // are NaN pass the check. INVALID_ARGUMENT: a row has more clicks than shows, or a negative
  // number of clicks.
  Status CheckCounts(std::span<const uint64_t> ids, const float* pushed) const;
  // Adds the counts of one row in a push to `use`. `version`: the version that the push updates.
  void Count(const float* pushed, uint32_t version, RowUse& use) const {
    use.show += ctr() ? pushed[0] : 1;
    if (ctr()) use.click += pushed[1];
    use.last = version;
  }
  // Returns whether a brief row with the counts `use` becomes a full row.
  bool Extends(const RowUse& use) const;

  // ---- Shrink
  float Score(const RowUse& use) const { return ScoreOf(rules_, use.show, use.click); }
  // Multiplies the counts of a row by the decay of a check. Returns false if the check removes the
  // row. If two rows have the same rules, the row with the higher counts and the later use is never
  // removed before the other row. REQUIRES: `check` is no begin.
  bool FadeAndStay(const RowCheck& check, RowUse& use) const;

 private:
  bool ctr() const { return rules_.accessor == RowAccessorKind::kCtr; }

  const TableRules rules_;
  const int64_t dim_;
};

}  // namespace tandem::pserver
