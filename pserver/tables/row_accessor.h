// The strategy of a table's rows, which TableRules::accessor names: what a row holds, what a push
// brings for it, what its counts decide. Another accessor is another case in here and in
// TableRules; stores, images, moves and clients know rows of two lengths and their counts alone.
//
// A row is `columns` values and as many of each optimizer slot: those of its table's dim, or,
// before it is extended, the first of them alone. What it lacks reads as zeros, and gradients for
// that are dropped.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/tensor/table_rules.h"
#include "pserver/tables/row_store.h"

namespace tandem {

class RowAccessor {
 public:
  RowAccessor(const TableRules& rules, int64_t dim) : rules_(rules), dim_(dim) {}

  // ---- Layout
  // Values of a row that is new, of `dim` in all.
  int64_t columns_at_first() const { return ctr() ? 1 : dim_; }
  bool extends() const { return columns_at_first() < dim_; }
  size_t columns(bool brief) const {
    return static_cast<size_t>(brief ? columns_at_first() : dim_);
  }
  // Numbers in front of each gradient in a push; a push has counts() + dim for each row.
  int64_t counts() const { return rules_.counts(); }

  // ---- Update
  // INVALID_ARGUMENT naming a row that was clicked more often than shown, or less than never.
  // `pushed` has counts() + dim numbers for each of `ids`. Numbers that are none pass.
  Status CheckCounts(std::span<const uint64_t> ids, const float* pushed) const;
  // The update of `version` has these counts for a row.
  void Count(const float* pushed, uint32_t version, RowUse& use) const {
    use.show += ctr() ? pushed[0] : 1;
    if (ctr()) use.click += pushed[1];
    use.last = version;
  }
  // Whether a row that is not extended becomes so behind the update that counted this.
  bool Extends(const RowUse& use) const;

  // ---- Shrink
  float Score(const RowUse& use) const { return ScoreOf(rules_, use.show, use.click); }
  // Fades what is counted of a row that is looked through before the update of `version`; false:
  // the row is to be removed. A row with higher counts and a later use is never removed before one
  // with less.
  bool FadeAndStay(uint32_t version, RowUse& use) const;

 private:
  bool ctr() const { return rules_.accessor == RowAccessorKind::kCtr; }

  const TableRules rules_;
  const int64_t dim_;
};

}  // namespace tandem
