// The rules by which rows of a table are created and removed. Time is counted in versions or in
// event time, not by a clock. A version is one update of the servers: a training step in sync mode.
// The event time of a server is the time of the newest sample whose gradients it has applied
// (PushRequest.event_time_ms). So the same updates always leave the same rows.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem {

// Determines the contents of a row and the formula of the row's score
// (pserver/tables/rows/row_accessor.h).
enum class RowAccessorKind : uint8_t {
  // The row has all its values after its first gradient. Score: the number of versions with a
  // gradient.
  kCommon,
  // The row has counts of shows and clicks, which come with pushes. Its first value is a weight.
  // The further values, the embedding, exist after the score has reached embedx_threshold. Score:
  // nonclk_coeff * (show - click) + click_coeff * click. Source: Paddle's CtrCommonAccessor.
  kCtr
};
const char* Name(RowAccessorKind kind);  // returns "common" or "ctr"

// The rules of one table. By default a row is created at its first gradient and is never removed.
struct TableRules {
  RowAccessorKind accessor = RowAccessorKind::kCommon;
  // Used with kCtr only. Source: the fields of the same names in Paddle's CtrAccessorParameter.
  double nonclk_coeff = 0.1, click_coeff = 1;
  double embedx_threshold = 10;
  // A row is created at the admit_count-th version that has a gradient for it. Before that, reads
  // of the row return zeros and its gradients are dropped. Source: Paddle's CountFilterEntry.
  int64_t admit_count = 1;
  // From the admit_count-th version on, each version with a gradient for the row creates the row
  // with this probability. The random draw is a pure function of seed, table, id and version.
  // Source: PERSIA's admit_probability. (The probability of Paddle 2.1's ProbabilityEntry is 1
  // minus this value.)
  double admit_probability = 1;
  // The server checks all rows every shrink_every versions, before it applies the update. 0: never.
  int64_t shrink_every = 0;
  // Instead of shrink_every: the server checks all rows before the first update that raises its
  // event time into a later period. The periods have this number of seconds and begin at multiples
  // of this number in Unix time. 0: never.
  int64_t shrink_every_s = 0;
  // A check multiplies the counts of each row by `decay` and removes rows with a score below
  // shrink_score. With shrink_every_s, the factor is `decay` for each period since the last check.
  // Source: show_click_decay_rate (0.98) and delete_threshold (0.8) of Paddle's CtrAccessor, here
  // off by default.
  double decay = 1;
  double shrink_score = 0;
  // A check of shrink_every also removes rows that had no gradient for more than `ttl` versions. 0:
  // no row is removed for this reason.
  int64_t ttl = 0;
  // A check of shrink_every_s also removes rows that had no gradient for ttl_s seconds of event
  // time. A row stays for at least ttl_s seconds. It stays for less than four periods longer if
  // each period has an update, and at most two if an update follows the begin of each period at
  // once. 0: no row is removed for this reason.
  int64_t ttl_s = 0;

  // Returns true if checks depend on event time.
  bool uses_event_time() const { return shrink_every_s > 0; }
  // Returns true if a row may be absent after its first gradient. An absent row reads as zeros.
  bool admits() const { return admit_count > 1 || admit_probability < 1; }
  // Returns the number of counts that precede each gradient in a push. kCtr has two counts: the
  // shows and the clicks of the row.
  int64_t counts() const { return accessor == RowAccessorKind::kCtr ? 2 : 0; }
  friend bool operator==(const TableRules&, const TableRules&) = default;
};

// Returns the score of a row, computed from its counts. With kCommon, `show` is the number of
// versions with a gradient for the row.
float ScoreOf(const TableRules& rules, float show, float click);

// Parses "admit_count=5 shrink_every=1000 ttl=20000", in any order, separated by blanks; "" gives
// the defaults. INVALID_ARGUMENT: a name is unknown (the message has the nearest name), a value is
// wrong, or CheckRules finds an error.
StatusOr<TableRules> ParseTableRules(const std::string& text);
// Checks the values of the rules. INVALID_ARGUMENT: a value out of range, or a rule without effect.
Status CheckRules(const TableRules& rules);
// Returns the rules as text for ParseTableRules, without the rules that have default values.
std::string ToString(const TableRules& rules);

}  // namespace tandem
