#include "pserver/image_delta.h"

#include <map>
#include <utility>

#include "common/base/check.h"
#include "pserver/row_admission.h"

namespace tandem {
namespace {

// Rows of one bucket of the two images.
class BucketMerge {
 public:
  BucketMerge(const TableRules& rules, uint64_t base_version, uint64_t version)
      : rules_(rules), base_version_(base_version), version_(version) {}

  RowValues Merge(const RowValues& base, const RowValues& delta) const {
    RowValues merged;
    merged.variable = delta.variable.empty() ? base.variable : delta.variable;
    merged.waiting = delta.waiting;
    size_t next = 0;
    for (size_t i = 0; i < base.ids.size(); ++i) {
      for (; next < delta.ids.size() && delta.ids[next] < base.ids[i]; ++next) {
        Append(delta, next, delta.use[next], merged);
      }
      if (next < delta.ids.size() && delta.ids[next] == base.ids[i]) continue;
      RowAge use = base.use[i];
      if (Stays(use)) Append(base, i, use, merged);
    }
    for (; next < delta.ids.size(); ++next) Append(delta, next, delta.use[next], merged);
    return merged;
  }

 private:
  static void Append(const RowValues& from, size_t i, RowAge use, RowValues& to) {
    const size_t width = from.content.size() / from.ids.size();
    to.ids.push_back(from.ids[i]);
    const float* const row = from.content.data() + i * width;
    to.content.insert(to.content.end(), row, row + width);
    to.use.push_back(use);
  }
  bool Stays(RowAge& use) const {
    RowUse row{use.score, static_cast<uint32_t>(base_version_) - use.age};
    const auto every = static_cast<uint64_t>(rules_.shrink_every);
    // Of each update between the two, by the version before it (SparseTable::Begin).
    uint64_t at = every == 0 ? version_ : (base_version_ + every - 1) / every * every;
    for (; at < version_; at += every) {
      if (at > 0 && !FadeAndStay(rules_, static_cast<uint32_t>(at), row)) return false;
    }
    use = {row.score, static_cast<uint32_t>(version_) - row.last};
    return true;
  }

  const TableRules& rules_;
  const uint64_t base_version_, version_;
};

}  // namespace

void MergeDelta(const ShardImage& base, ShardImage& delta) {
  CHECK_EQ(base.tables.size(), delta.tables.size());
  for (size_t i = 0; i < delta.tables.size(); ++i) {
    TableImage& table = delta.tables[i];
    if (!table.partial) continue;
    const BucketMerge merge(delta.config.tables[i].rules, base.version, delta.version);
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
}

}  // namespace tandem
