// A condition on the values of a server, and the check of the values that an update changed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "pserver/history/log_replay.h"
#include "pserver/shard/state_replay.h"

namespace tandem::pserver {

struct StateCondition {
  enum class Kind : uint8_t {
    kNonfinite,  // an element of a variable, row or optimizer state is NaN or infinite
    kAbove,      // the absolute value of an element of a variable or row is above the limit
    // The Euclidean norm of a row, or of the part of a dense variable on one server, is above the
    // limit.
    kNormAbove
  };
  Kind kind = Kind::kNonfinite;
  double limit = 0;
  std::string variable;        // only this dense variable; "": all, unless `table` is set
  std::string table;           // only this table; "": all, unless `variable` is set
  std::optional<uint64_t> id;  // only this row of `table`

  bool ReadsVariable(const std::string& name) const;
  bool ReadsTable(const std::string& name) const;
};

// Values for which the condition holds: those of a dense variable, of a row, or of one slot.
struct ConditionMatch {
  bool is_row = false;
  std::string variable;  // name of the variable or table
  uint64_t id = 0;       // id of the row
  std::string slot;      // name of the optimizer slot; "": the values themselves
  // Position of the first element for which the condition holds, in the variable or row; -1: the
  // condition is about the norm, or the slot is one number for the whole table.
  int64_t element = -1;
  int64_t offset = 0;  // first element of the slice of a dense variable
  double value = 0;    // this element, or the norm
};
struct ConditionMatches {
  std::vector<ConditionMatch> first;  // at most kMax
  size_t total = 0;
  static constexpr size_t kMax = 10;
  bool none() const { return total == 0; }
  void Add(ConditionMatch match);
};

// Checks a state that a replay changes. NaN counts as above each limit. Not thread-safe.
class ConditionCheck {
 public:
  explicit ConditionCheck(StateCondition condition) : condition_(std::move(condition)) {}

  // Checks all values. Called when a state was loaded, and when rows or slices have moved.
  StatusOr<ConditionMatches> All(StateReplay& replay);
  // Checks the values that an update changed: the slices and rows in `pushes`. If the optimizer
  // also changes rows without a gradient, checks all rows of the table. REQUIRES: All was called
  // for the state before.
  StatusOr<ConditionMatches> Changed(std::span<const ReplayedPush> pushes, StateReplay& replay);
  // Returns the measured value of a match in another state: the element or the norm. nullopt: the
  // row or slice does not exist there.
  StatusOr<std::optional<double>> ValueOf(const ConditionMatch& match, StateReplay& replay);

  // Names of the dense variables and tables that the checked states had.
  const std::set<std::string>& variables() const { return variables_; }
  const std::set<std::string>& tables() const { return tables_; }

 private:
  // `at`: the match without element and value. `one`: the value is one number for the whole slice
  // or table.
  void Check(ConditionMatch at, std::span<const float> values, bool one,
             ConditionMatches& out) const;
  Status CheckSlice(const std::string& variable, int64_t offset, StateReplay& replay,
                    ConditionMatches& out);
  void CheckNorm(const std::string& variable, ConditionMatches& out) const;
  void CheckPage(const TablePage& page, ConditionMatches& out) const;
  Status CheckTable(const std::string& table, StateReplay& replay, ConditionMatches& out) const;
  Status CheckScalars(const std::string& table, StateReplay& replay, ConditionMatches& out) const;
  StatusOr<std::optional<double>> RowValueOf(const ConditionMatch& match,
                                             StateReplay& replay) const;
  Status CheckRowsOf(std::span<const ReplayedPush> pushes, const std::string& table,
                     StateReplay& replay, ConditionMatches& out) const;

  const StateCondition condition_;
  std::set<std::string> variables_, tables_;
  // By variable and first element: number of elements of a slice.
  std::map<std::pair<std::string, int64_t>, int64_t> numels_;
  std::map<std::string, size_t> dims_;  // by table: number of values of a row
  // The tables whose rows an update changes also without a gradient.
  std::set<std::string> restless_;
  // kNormAbove: by variable and first element of a slice, the sum of its squares.
  std::map<std::string, std::map<int64_t, double>> squares_;
};

}  // namespace tandem::pserver
