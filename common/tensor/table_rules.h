// How the rows of a table come and go. Time is counted in versions (updates of the servers: steps
// in sync mode), never by a clock, so that the same updates always leave the same rows.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem {

// What a row holds, and what its score is made of (pserver/tables/row_accessor.h).
enum class RowAccessorKind : uint8_t {
  // All values from its first gradient on. Its score: versions with a gradient for it.
  kCommon,
  // Counts of how often it was shown and clicked, which pushes bring, and its first value, a
  // weight;
  // the values behind, its embedding, from the score embedx_threshold on. Its score: nonclk_coeff *
  // (show - click) + click_coeff * click. Source: Paddle's CtrCommonAccessor.
  kCtr
};
const char* Name(RowAccessorKind kind);  // "common", "ctr"

// The defaults: every row is admitted at its first gradient, and none is ever removed.
struct TableRules {
  RowAccessorKind accessor = RowAccessorKind::kCommon;
  // Of kCtr. Source: the fields of these names of Paddle's CtrAccessorParameter.
  double nonclk_coeff = 0.1, click_coeff = 1;
  double embedx_threshold = 10;
  // A row is made by the admit_count-th version that has a gradient for it. Until then it reads as
  // zeros, and its gradients are dropped. Source: Paddle's CountFilterEntry.
  int64_t admit_count = 1;
  // ... and then with this probability, drawn anew in each version that has a gradient for it (a
  // pure function of seed, table, id and version). Source: PERSIA's admit_probability. (Paddle's
  // ProbabilityEntry of 2.1 admits with the opposite probability.)
  double admit_probability = 1;
  // Every so many versions, before the update, rows are looked through. 0: never.
  int64_t shrink_every = 0;
  // Then what is counted of each row is multiplied by this; rows with a score of less than
  // shrink_score are removed. Source: show_click_decay_rate (0.98) and delete_threshold (0.8) of
  // Paddle's CtrAccessor, here off by default.
  double decay = 1;
  double shrink_score = 0;
  // ... and rows without a gradient for more versions than this. 0: they stay. Source:
  // delete_after_unseen_days (30) of the same.
  int64_t ttl = 0;

  // Rows that are not there read as zeros.
  bool admits() const { return admit_count > 1 || admit_probability < 1; }
  // Numbers in front of each gradient in a push: how often the row was shown and clicked.
  int64_t counts() const { return accessor == RowAccessorKind::kCtr ? 2 : 0; }
  friend bool operator==(const TableRules&, const TableRules&) = default;
};

// A row's score, of what is counted of it: with kCommon `show` is versions with a gradient.
float ScoreOf(const TableRules& rules, float show, float click);

// "admit_count=5 shrink_every=1000 ttl=20000", in any order, separated by blanks; "" is the
// defaults. INVALID_ARGUMENT naming what is wrong, with the nearest name, or what CheckRules says.
StatusOr<TableRules> ParseTableRules(const std::string& text);
// INVALID_ARGUMENT for values out of range, and for rules that would have no effect.
Status CheckRules(const TableRules& rules);
// What ParseTableRules reads; what is as by default is left out.
std::string ToString(const TableRules& rules);

}  // namespace tandem
