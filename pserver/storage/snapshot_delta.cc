#include "pserver/storage/snapshot_delta.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "pserver/tables/rows/row_accessor.h"
#include "pserver/tables/rows/row_check_schedule.h"

namespace tandem::pserver {
namespace {

// Merges the rows of one bucket of a full snapshot and of a delta.
class BucketMerge {
 public:
  // `checks`: the checks between the two versions.
  BucketMerge(const TableSpec& spec, uint64_t base_version, uint64_t version,
              std::vector<RowCheck> checks)
      : accessor_(spec.rules, spec.dim()),
        base_version_(base_version),
        version_(version),
        checks_(std::move(checks)) {}

  RowValues Merge(const RowValues& base, const RowValues& delta) const {
    TD_REQUIRE(std::ranges::is_sorted(base.ids) && std::ranges::is_sorted(delta.ids));
    TD_REQUIRE(base.use.size() == base.ids.size() && delta.use.size() == delta.ids.size());
    RowValues merged;
    merged.variable = delta.variable.empty() ? base.variable : delta.variable;
    merged.waiting = delta.waiting;
    const std::vector<size_t> of_base = Begins(base), of_delta = Begins(delta);
    size_t next = 0;
    for (size_t i = 0; i < base.ids.size(); ++i) {
      for (; next < delta.ids.size() && delta.ids[next] < base.ids[i]; ++next) {
        Append(delta, next, of_delta, delta.use[next], merged);
      }
      if (next < delta.ids.size() && delta.ids[next] == base.ids[i]) continue;
      RowAge use = base.use[i];
      if (Stays(use)) Append(base, i, of_base, use, merged);
    }
    for (; next < delta.ids.size(); ++next) {
      Append(delta, next, of_delta, delta.use[next], merged);
    }
    return merged;
  }

 private:
  // Returns the offsets in rows.content at which the rows begin, followed by the end of the last
  // row.
  std::vector<size_t> Begins(const RowValues& rows) const {
    std::vector<size_t> begins = {0};
    size_t weights = 0;
    for (const RowAge& use : rows.use) begins.push_back(weights += accessor_.columns(use.brief));
    // Until here, the offsets count only weights. Each weight has the same number of slot values,
    // so one factor converts the offsets.
    for (size_t& begin : begins) begin = weights == 0 ? 0 : begin * (rows.content.size() / weights);
    return begins;
  }
  static void Append(const RowValues& from, size_t i, const std::vector<size_t>& begins, RowAge use,
                     RowValues& to) {
    to.ids.push_back(from.ids[i]);
    const float* const content = from.content.data();
    to.content.insert(to.content.end(), content + begins[i], content + begins[i + 1]);
    to.use.push_back(use);
  }
  bool Stays(RowAge& use) const {
    RowUse row{use.show, use.click, static_cast<uint32_t>(base_version_) - use.age};
    for (const RowCheck& check : checks_) {
      if (!accessor_.FadeAndStay(check, row)) return false;
    }
    use = {row.show, static_cast<uint32_t>(version_) - row.last, row.click, use.brief};
    return true;
  }

  const RowAccessor accessor_;
  const uint64_t base_version_, version_;
  const std::vector<RowCheck> checks_;
};

// Returns the checks that a table made after the snapshot `base` and before `delta`. DATA_LOSS:
// `delta` lacks a check.
StatusOr<std::vector<RowCheck>> ChecksSince(const TableSpec& spec, const ShardSnapshot& whole,
                                            uint64_t version, const RowChecks& base,
                                            const RowChecks& delta) {
  if (!spec.rules.uses_event_time()) return ChecksBetween(spec.rules, whole.version, version);
  if (base.made > delta.made || delta.made - base.made > delta.recent.size()) {
    return DataLoss(
        "the checkpoint of version %d has %d of %d checks of table %s, and the full checkpoint of "
        "version %d has the first %d; some are missing [TD2118]; hint: restore a copy of the "
        "directory",
        version, delta.recent.size(), delta.made, spec.variable, whole.version, base.made);
  }
  std::vector<RowCheck> checks(delta.recent.end() - static_cast<int64_t>(delta.made - base.made),
                               delta.recent.end());
  std::erase_if(checks, [](const RowCheck& check) { return check.begin; });
  return checks;
}

}  // namespace

Status MergeDelta(const ShardSnapshot& base, ShardSnapshot& delta) {
  CHECK_EQ(base.tables.size(), delta.tables.size());
  TD_REQUIRE(base.version <= delta.version && !base.base.has_value());
  for (size_t i = 0; i < delta.tables.size(); ++i) {
    TableSnapshot& table = delta.tables[i];
    if (!table.partial) continue;
    const TableSpec& spec = delta.config.tables[i];
    TD_ASSIGN_OR_RETURN(
        std::vector<RowCheck> checks,
        ChecksSince(spec, base, delta.version, base.tables[i].checks, table.checks));
    const BucketMerge merge(spec, base.version, delta.version, std::move(checks));
    std::map<int, std::pair<const RowValues*, const RowValues*>> both;
    for (const auto& [bucket, rows] : base.tables[i].buckets) both[bucket].first = &rows;
    for (const auto& [bucket, rows] : table.buckets) both[bucket].second = &rows;
    const RowValues none;
    std::vector<std::pair<int, RowValues>> merged;
    for (const auto& [bucket, rows] : both) {
      RowValues one = merge.Merge(rows.first == nullptr ? none : *rows.first,
                                  rows.second == nullptr ? none : *rows.second);
      if (one.ids.empty() && one.waiting.empty()) continue;
      merged.emplace_back(bucket, std::move(one));
    }
    table.buckets = std::move(merged);
    table.partial = false;
  }
  delta.base.reset();
  return OkStatus();
}

}  // namespace tandem::pserver
