// Rules that create and remove rows of a table. Time is counted in versions (updates of the
// servers: training steps in sync mode), not by a clock. So the same updates always leave the same
// rows.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem {

// The contents of a row and the source of its score (pserver/tables/rows/row_accessor.h).
enum class RowAccessorKind : uint8_t {
  // The row has all its values from its first gradient on. Score: the number of versions with a
  // gradient for it.
  kCommon,
  // The row has counts of shows and clicks, which pushes deliver, and a first value, which is a
  // weight. The values after it, the embedding, exist from the score embedx_threshold on. Score:
  // nonclk_coeff * (show - click) + click_coeff * click. Source: Paddle's CtrCommonAccessor.
  kCtr
};
const char* Name(RowAccessorKind kind);  // "common", "ctr"

// The rules of one table. By default every row is admitted at its first gradient, and none is ever
// removed.
struct TableRules {
  RowAccessorKind accessor = RowAccessorKind::kCommon;
  // For kCtr. Source: the fields of the same names in Paddle's CtrAccessorParameter.
  double nonclk_coeff = 0.1, click_coeff = 1;
  double embedx_threshold = 10;
  // The admit_count-th version that has a gradient for a row creates it. Before that, the row reads
  // as zeros and its gradients are dropped. Source: Paddle's CountFilterEntry.
  int64_t admit_count = 1;
  // From then on, each version with a gradient for the row creates it with this probability. The
  // draw is a pure function of seed, table, id and version. Source: PERSIA's admit_probability.
  // (Paddle's ProbabilityEntry of 2.1 admits with the opposite probability.)
  double admit_probability = 1;
  // The server checks all rows every shrink_every versions, before the update. 0: never.
  int64_t shrink_every = 0;
  // The check multiplies the counts of each row by `decay` and removes rows with a score below
  // shrink_score. Source: show_click_decay_rate (0.98) and delete_threshold (0.8) of Paddle's
  // CtrAccessor, here off by default.
  double decay = 1;
  double shrink_score = 0;
  // The check also removes rows that had no gradient for more than `ttl` versions. 0: it does not.
  // Source: delete_after_unseen_days (30) of Paddle's CtrAccessor.
  int64_t ttl = 0;

  // True if a row may be absent after its first gradient. Absent rows read as zeros.
  bool admits() const { return admit_count > 1 || admit_probability < 1; }
  // Numbers in front of each gradient in a push: the show count and the click count of the row.
  int64_t counts() const { return accessor == RowAccessorKind::kCtr ? 2 : 0; }
  friend bool operator==(const TableRules&, const TableRules&) = default;
};

// Returns the score of a row from its counts. With kCommon, `show` is the number of versions with a
// gradient.
float ScoreOf(const TableRules& rules, float show, float click);

// Parses "admit_count=5 shrink_every=1000 ttl=20000", in any order, separated by blanks; "" gives
// the defaults. INVALID_ARGUMENT: an unknown name (the message has the nearest one) or a wrong
// value, or an error of CheckRules.
StatusOr<TableRules> ParseTableRules(const std::string& text);
// INVALID_ARGUMENT: a value out of range, or a rule without effect.
Status CheckRules(const TableRules& rules);
// Returns text that ParseTableRules reads, without default values.
std::string ToString(const TableRules& rules);

}  // namespace tandem
