#include "pserver/history/state_condition.h"

#include <algorithm>
#include <cmath>

#include "common/base/require.h"
#include "common/tables/row_buckets.h"
#include "common/tensor/finite.h"
#include "kernels/graph/optimizer.h"
#include "pserver/history/push_gradients.h"

namespace tandem::pserver {
namespace {

using Kind = StateCondition::Kind;

double SquaresOf(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return sum;
}

// Calls `take` with each slot of each row of a page, and with the values themselves as slot "".
// `dim`: number of values of a full row. A brief row has one value, and one of each slot.
template <typename Take>
void ForEachGroup(const TablePage& page, size_t dim, const Take& take) {
  TD_REQUIRE(page.rows.use.size() == page.rows.ids.size());
  const std::string values;
  size_t at = 0;
  for (size_t i = 0; i < page.rows.ids.size(); ++i) {
    const size_t columns = page.rows.use[i].brief ? 1 : dim;
    for (size_t slot = 0; slot <= page.slots.size(); ++slot) {
      take(page.rows.ids[i], slot == 0 ? values : page.slots[slot - 1],
           std::span<const float>(page.rows.content).subspan(at, columns));
      at += columns;
    }
  }
}

}  // namespace

bool StateCondition::ReadsVariable(const std::string& name) const {
  return table.empty() && (variable.empty() || variable == name);
}

bool StateCondition::ReadsTable(const std::string& name) const {
  return variable.empty() && (table.empty() || table == name);
}

void ConditionMatches::Add(ConditionMatch match) {
  ++total;
  if (first.size() < kMax) first.push_back(std::move(match));
}

// ---- The check

void ConditionCheck::Check(ConditionMatch at, std::span<const float> values, bool one,
                           ConditionMatches& out) const {
  const auto add = [&](size_t i) {
    at.element = one ? -1 : at.offset + static_cast<int64_t>(i);
    at.value = values[i];
    out.Add(std::move(at));
  };
  if (condition_.kind == Kind::kNonfinite) {
    if (AllFinite(values)) return;
    const auto bad = std::ranges::find_if(values, [](float v) { return !std::isfinite(v); });
    return add(static_cast<size_t>(bad - values.begin()));
  }
  if (!at.slot.empty()) return;
  if (condition_.kind == Kind::kAbove) {
    // NaN is not below the limit.
    const auto bad = std::ranges::find_if(
        values, [limit = condition_.limit](float v) { return !(std::fabs(v) <= limit); });
    if (bad != values.end()) add(static_cast<size_t>(bad - values.begin()));
    return;
  }
  TD_REQUIRE(at.is_row);  // CheckNorm checks dense variables
  const double norm = std::sqrt(SquaresOf(values));
  if (norm <= condition_.limit) return;
  at.value = norm;
  out.Add(std::move(at));
}

StatusOr<ConditionMatches> ConditionCheck::All(StateReplay& replay) {
  const ShardConfig config = replay.config();
  squares_.clear();
  numels_.clear();
  ConditionMatches out;
  TD_ASSIGN_OR_RETURN(const std::vector<SliceSpec> slices, replay.Slices());
  for (const SliceSpec& slice : slices) {
    variables_.insert(slice.variable);
    numels_[{slice.variable, slice.offset}] = slice.numel;
    if (!condition_.ReadsVariable(slice.variable)) continue;
    TD_RETURN_IF_ERROR(CheckSlice(slice.variable, slice.offset, replay, out));
  }
  for (const auto& [variable, squares] : squares_) CheckNorm(variable, out);
  for (const TableSpec& table : config.tables) {
    tables_.insert(table.variable);
    dims_[table.variable] = static_cast<size_t>(table.dim());
    TD_ASSIGN_OR_RETURN(const auto idle, graph::IdleRowsOf(config.optimizer, table.variable));
    if (idle != graph::UntouchedRowPolicy::kStay) restless_.insert(table.variable);
    if (!condition_.ReadsTable(table.variable)) continue;
    TD_RETURN_IF_ERROR(CheckTable(table.variable, replay, out));
  }
  return out;
}

StatusOr<ConditionMatches> ConditionCheck::Changed(std::span<const ReplayedPush> pushes,
                                                   StateReplay& replay) {
  TD_REQUIRE(!variables_.empty() || !tables_.empty());
  ConditionMatches out;
  std::map<std::string, std::set<int64_t>> slices;
  for (const ReplayedPush& push : pushes) {
    for (const PushHead::Slice& slice : push.record.head.slices) {
      if (tables_.contains(slice.variable) || !condition_.ReadsVariable(slice.variable)) continue;
      slices[slice.variable].insert(slice.offset);
    }
  }
  for (const auto& [variable, offsets] : slices) {
    for (const int64_t offset : offsets) {
      TD_RETURN_IF_ERROR(CheckSlice(variable, offset, replay, out));
    }
    CheckNorm(variable, out);
  }
  for (const std::string& table : tables_) {
    if (!condition_.ReadsTable(table)) continue;
    if (restless_.contains(table)) {
      TD_RETURN_IF_ERROR(CheckTable(table, replay, out));
    } else {
      TD_RETURN_IF_ERROR(CheckRowsOf(pushes, table, replay, out));
    }
  }
  return out;
}

Status ConditionCheck::CheckSlice(const std::string& variable, int64_t offset, StateReplay& replay,
                                  ConditionMatches& out) {
  const auto numel = numels_.find({variable, offset});
  if (numel == numels_.end()) return OkStatus();  // another server has the slice now
  TD_ASSIGN_OR_RETURN(const SliceSnapshot slice, replay.Slice(variable, offset));
  const ConditionMatch at{.variable = variable, .offset = offset};
  const auto values = Floats(slice.param, numel->second);
  if (condition_.kind == Kind::kNormAbove) {
    squares_[variable][offset] = SquaresOf(values);
    return OkStatus();
  }
  Check(at, values, /*one=*/false, out);
  if (condition_.kind != Kind::kNonfinite) return OkStatus();
  for (const SliceSnapshot::Slot& slot : slice.slots) {
    ConditionMatch of_slot = at;
    of_slot.slot = slot.name;
    Check(of_slot, Floats(slot.values, slot.numel), slot.numel != numel->second, out);
  }
  return OkStatus();
}

void ConditionCheck::CheckNorm(const std::string& variable, ConditionMatches& out) const {
  const auto found = squares_.find(variable);
  if (found == squares_.end()) return;
  double sum = 0;
  for (const auto& [offset, squares] : found->second) sum += squares;
  const double norm = std::sqrt(sum);
  if (!(norm <= condition_.limit)) out.Add({.variable = variable, .value = norm});
}

void ConditionCheck::CheckPage(const TablePage& page, ConditionMatches& out) const {
  if (condition_.kind == Kind::kNonfinite && AllFinite(page.rows.content)) return;
  const std::string& table = page.rows.variable;
  ForEachGroup(page, dims_.at(table),
               [&](uint64_t id, const std::string& slot, std::span<const float> values) {
                 Check({.is_row = true, .variable = table, .id = id, .slot = slot}, values,
                       /*one=*/false, out);
               });
}

Status ConditionCheck::CheckTable(const std::string& table, StateReplay& replay,
                                  ConditionMatches& out) const {
  if (condition_.id) {
    TD_ASSIGN_OR_RETURN(const TablePage page, replay.Rows(table, {&*condition_.id, 1}));
    CheckPage(page, out);
    return OkStatus();
  }
  for (int bucket = 0; bucket < kRowBuckets;) {
    TD_ASSIGN_OR_RETURN(const TablePage page, replay.Page(table, bucket));
    CheckPage(page, out);
    TD_REQUIRE(page.next_bucket > bucket);
    bucket = page.next_bucket;
  }
  return CheckScalars(table, replay, out);
}

Status ConditionCheck::CheckRowsOf(std::span<const ReplayedPush> pushes, const std::string& table,
                                   StateReplay& replay, ConditionMatches& out) const {
  std::vector<uint64_t> ids;
  for (const ReplayedPush& push : pushes) {
    const std::span<const uint64_t> rows = RowsIn(push.record, table);
    if (!condition_.id) {
      ids.insert(ids.end(), rows.begin(), rows.end());
    } else if (std::ranges::binary_search(rows, *condition_.id)) {
      ids = {*condition_.id};
    }
  }
  if (pushes.size() > 1) {
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  }
  if (!ids.empty()) {
    TD_ASSIGN_OR_RETURN(const TablePage page, replay.Rows(table, ids));
    CheckPage(page, out);
  }
  return condition_.id ? OkStatus() : CheckScalars(table, replay, out);
}

Status ConditionCheck::CheckScalars(const std::string& table, StateReplay& replay,
                                    ConditionMatches& out) const {
  if (condition_.kind != Kind::kNonfinite) return OkStatus();
  TD_ASSIGN_OR_RETURN(const auto scalars, replay.Scalars(table));
  for (const auto& [slot, value] : scalars) {
    Check({.variable = table, .slot = slot}, {&value, 1}, /*one=*/true, out);
  }
  return OkStatus();
}

// ---- Values of a match

StatusOr<std::optional<double>> ConditionCheck::ValueOf(const ConditionMatch& match,
                                                        StateReplay& replay) {
  if (match.is_row) return RowValueOf(match, replay);
  std::optional<double> found;
  if (tables_.contains(match.variable)) {
    TD_ASSIGN_OR_RETURN(const auto scalars, replay.Scalars(match.variable));
    for (const auto& [slot, value] : scalars) {
      if (slot == match.slot) found = value;
    }
    return found;
  }
  double squares = 0;
  TD_ASSIGN_OR_RETURN(const std::vector<SliceSpec> slices, replay.Slices());
  for (const SliceSpec& spec : slices) {
    if (spec.variable != match.variable) continue;
    const bool norm = condition_.kind == Kind::kNormAbove;
    if (!norm && spec.offset != match.offset) continue;
    TD_ASSIGN_OR_RETURN(const SliceSnapshot slice, replay.Slice(spec.variable, spec.offset));
    if (norm) {
      squares += SquaresOf(Floats(slice.param, spec.numel));
      found = std::sqrt(squares);
      continue;
    }
    const size_t at = match.element < 0 ? 0 : static_cast<size_t>(match.element - spec.offset);
    if (match.slot.empty()) found = Floats(slice.param, spec.numel)[at];
    for (const SliceSnapshot::Slot& slot : slice.slots) {
      if (slot.name == match.slot) found = Floats(slot.values, slot.numel)[at];
    }
  }
  return found;
}

StatusOr<std::optional<double>> ConditionCheck::RowValueOf(const ConditionMatch& match,
                                                           StateReplay& replay) const {
  std::optional<double> found;
  TD_ASSIGN_OR_RETURN(const TablePage page, replay.Rows(match.variable, {&match.id, 1}));
  ForEachGroup(page, dims_.at(match.variable),
               [&](uint64_t, const std::string& slot, std::span<const float> values) {
                 if (slot != match.slot) return;
                 if (match.element < 0) {
                   found = std::sqrt(SquaresOf(values));
                 } else if (static_cast<size_t>(match.element) < values.size()) {
                   found = values[static_cast<size_t>(match.element)];
                 }
               });
  return found;
}

}  // namespace tandem::pserver
