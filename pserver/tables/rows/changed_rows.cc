#include "pserver/tables/rows/changed_rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

std::vector<uint64_t> Union(std::span<const uint64_t> a, std::span<const uint64_t> b) {
  std::vector<uint64_t> all;
  all.reserve(a.size() + b.size());
  std::ranges::set_union(a, b, std::back_inserter(all));
  all.shrink_to_fit();
  return all;
}

}  // namespace

void ChangedRows::Begin(uint64_t version) {
  if (!floor_ || version + 1 < version_) {
    merged_.clear();
    single_.clear();
    ids_ = 0;
    floor_ = version;
  }
  version_ = version + 1;
}

void ChangedRows::Add(std::span<const uint64_t> ids) {
  TD_REQUIRE(floor_.has_value() && std::ranges::is_sorted(ids));
  if (!remembers() || ids.empty()) return;
  if (!single_.empty() && single_.back().last == version_) {
    Segment& last = single_.back();
    ids_ -= last.ids.size();
    last.ids = Union(last.ids, ids);
    ids_ += last.ids.size();
  } else {
    single_.push_back({version_, version_, {ids.begin(), ids.end()}});
    ids_ += ids.size();
    if (single_.size() > kSingle) MergeOld();
  }
  while (ids_ > ids_max_) {
    std::deque<Segment>& oldest = merged_.empty() ? single_ : merged_;
    floor_ = oldest.front().last;
    ids_ -= oldest.front().ids.size();
    oldest.pop_front();
  }
}

// Moves the oldest single segment to merged_. Merges two segments if the older one has at most
// twice the ids of the newer one, so that each id takes part in few merges.
void ChangedRows::MergeOld() {
  TD_REQUIRE(!single_.empty());
  merged_.push_back(std::move(single_.front()));
  single_.pop_front();
  while (merged_.size() >= 2) {
    Segment& older = merged_[merged_.size() - 2];
    const Segment& newer = merged_.back();
    const size_t sum = older.ids.size() + newer.ids.size();
    if (older.ids.size() > 2 * newer.ids.size() || sum > kSegmentIdsMax) return;
    older.ids = Union(older.ids, newer.ids);
    older.last = newer.last;
    ids_ -= sum - older.ids.size();
    merged_.pop_back();
  }
}

std::optional<ChangedRows::Result> ChangedRows::After(const ChangedUpTo& after, uint64_t version,
                                                      size_t ids_wanted) const {
  TD_REQUIRE(after.version <= version && ids_wanted > 0);
  if (!remembers() || after.version < floor_.value_or(version)) return std::nullopt;
  Result result{.ids = {}, .up_to = after};
  const auto sort = [&result] {
    std::ranges::sort(result.ids);
    result.ids.erase(std::unique(result.ids.begin(), result.ids.end()), result.ids.end());
  };
  // Adds the ids of a segment. Returns false if the reply is full.
  const auto add = [&](const Segment& segment) {
    if (segment.last <= after.version) return true;
    auto begin = segment.ids.begin();
    if (segment.last <= after.until) {
      begin = std::upper_bound(begin, segment.ids.end(), after.last_id);
    }
    const auto left = static_cast<size_t>(segment.ids.end() - begin);
    if (result.ids.size() + left <= ids_wanted) {
      result.ids.insert(result.ids.end(), begin, segment.ids.end());
      result.up_to.version = segment.last;
      return true;
    }
    if (!result.ids.empty()) return false;
    result.ids.assign(begin, begin + static_cast<ptrdiff_t>(ids_wanted));
    result.up_to.until = segment.last;
    result.up_to.last_id = result.ids.back();
    return false;
  };
  const bool all = std::ranges::all_of(merged_, add) && std::ranges::all_of(single_, add);
  if (all) result.up_to = {.version = version};
  sort();
  return result;
}

}  // namespace tandem::pserver
