#include "pserver/client/moves/move_plan.h"

#include <algorithm>
#include <utility>

#include "common/base/require.h"
#include "common/tables/row_buckets.h"

namespace tandem::ps {
namespace {

// Plans to move the last `count` buckets of `from` to `target`, and removes these buckets from
// `from`.
void Give(ServedBuckets& from, int target, size_t count, std::vector<BucketTransfer>& plan) {
  if (count == 0) return;
  TD_REQUIRE(count <= from.buckets.size() && from.server != target);
  const auto begin = from.buckets.end() - static_cast<std::ptrdiff_t>(count);
  plan.push_back({from.server, target, {begin, from.buckets.end()}});
  from.buckets.erase(begin, from.buckets.end());
}

// The planned moves of slices, by source and target.
class SlicePlan {
 public:
  explicit SlicePlan(const std::vector<ServedBuckets>& now) {
    for (const ServedBuckets& s : now) {
      slices_[s.server] = s.slice_bytes;
      if (!s.leaving) load_[s.server] = 0;
      for (const auto& [bucket, bytes] : s.slice_bytes) origin_[bucket] = s.server;
      if (s.leaving) continue;
      for (const auto& [bucket, bytes] : s.slice_bytes) load_[s.server] += bytes;
    }
  }
  // Plans to move all slices of `server` to other servers.
  void Drain(int server) {
    load_.erase(server);
    while (!load_.empty() && !slices_[server].empty()) {
      const auto largest = LargestOf(server, UINT64_MAX);
      Give(server, Least()->first, largest->first);
    }
  }
  void Balance() {
    while (load_.size() > 1) {
      const auto most = std::max_element(load_.begin(), load_.end(), Fewer);
      const auto least = Least();
      const auto slice = LargestOf(most->first, most->second - least->second);
      if (slice == slices_[most->first].end()) return;
      Give(most->first, least->first, slice->first);
    }
  }
  std::vector<int> Leaving() const {
    std::vector<int> all;
    for (const auto& [server, slices] : slices_) {
      if (!load_.contains(server)) all.push_back(server);
    }
    return all;
  }
  std::vector<BucketTransfer> Transfers() const {
    std::map<std::pair<int, int>, std::vector<int>> by_way;
    for (const auto& [server, slices] : slices_) {
      for (const auto& [bucket, bytes] : slices) {
        const int from = origin_.at(bucket);
        if (from != server) by_way[{from, server}].push_back(bucket);
      }
    }
    std::vector<BucketTransfer> all;
    for (auto& [way, buckets] : by_way) all.push_back({way.first, way.second, std::move(buckets)});
    return all;
  }

 private:
  using Slices = std::map<int, uint64_t>;  // by bucket: bytes of the slice
  static bool Fewer(const std::pair<const int, uint64_t>& a,
                    const std::pair<const int, uint64_t>& b) {
    return a.second < b.second;
  }
  std::map<int, uint64_t>::iterator Least() {
    return std::min_element(load_.begin(), load_.end(), Fewer);
  }
  // Returns the largest slice of `server` that has fewer than `below` bytes.
  Slices::iterator LargestOf(int server, uint64_t below) {
    Slices& all = slices_[server];
    auto best = all.end();
    for (auto it = all.begin(); it != all.end(); ++it) {
      if (it->second < below && (best == all.end() || it->second > best->second)) best = it;
    }
    return best;
  }
  void Give(int from, int to, int bucket) {
    const auto slice = slices_[from].extract(bucket);
    TD_REQUIRE(!slice.empty() && from != to);
    if (load_.contains(from)) load_[from] -= slice.mapped();
    load_[to] += slice.mapped();
    slices_[to][bucket] = slice.mapped();
  }

  std::map<int, Slices> slices_;  // slices by server
  std::map<int, uint64_t> load_;  // by server that is not leaving: bytes of all its slices
  std::map<int, int> origin_;     // by bucket: the server that has it now
};

// Returns `servers` without the slices in their lists of buckets.
std::vector<ServedBuckets> RowsOf(std::vector<ServedBuckets> servers) {
  for (ServedBuckets& s : servers) {
    std::erase_if(s.buckets, [](int bucket) { return bucket >= kRowBuckets; });
  }
  return servers;
}

}  // namespace

std::vector<BucketTransfer> PlanDrain(const std::vector<ServedBuckets>& now, int server) {
  const std::vector<ServedBuckets> left = RowsOf(now);
  const auto source = std::find_if(left.begin(), left.end(),
                                   [server](const ServedBuckets& s) { return s.server == server; });
  std::map<int, std::vector<int>> by_target;
  std::map<int, size_t> load;
  for (const ServedBuckets& s : left) {
    if (s.server != server && !s.leaving) load[s.server] = s.buckets.size();
  }
  if (source == left.end() || load.empty()) return {};
  for (const int bucket : source->buckets) {
    const auto least = std::min_element(
        load.begin(), load.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    ++least->second;
    by_target[least->first].push_back(bucket);
  }
  std::vector<BucketTransfer> plan;
  for (auto& [target, buckets] : by_target) plan.push_back({server, target, std::move(buckets)});
  SlicePlan slices(now);
  slices.Drain(server);
  for (BucketTransfer& t : slices.Transfers()) plan.push_back(std::move(t));
  return plan;
}

std::vector<BucketTransfer> PlanRebalance(const std::vector<ServedBuckets>& now) {
  std::vector<ServedBuckets> left = RowsOf(now);
  size_t sum = 0, leaving = 0;
  for (const ServedBuckets& s : left) {
    sum += s.buckets.size();
    leaving += s.leaving;
  }
  const size_t stay = left.size() - leaving;
  if (stay == 0) return {};
  // If the number of buckets is not a multiple of the number of servers, the servers that now have
  // the most buckets keep one more.
  std::stable_sort(left.begin(), left.end(), [](const ServedBuckets& a, const ServedBuckets& b) {
    if (a.leaving != b.leaving) return a.leaving;
    return a.buckets.size() > b.buckets.size();
  });
  const auto share = [&](size_t i) {
    return i < leaving ? 0 : sum / stay + (i - leaving < sum % stay);
  };
  std::vector<BucketTransfer> plan;
  size_t giver = 0;
  for (size_t taker = left.size(); taker-- > 0;) {
    size_t missing = share(taker) - std::min(share(taker), left[taker].buckets.size());
    while (missing > 0 && giver < taker) {
      const size_t spare =
          left[giver].buckets.size() - std::min(left[giver].buckets.size(), share(giver));
      const size_t count = std::min(spare, missing);
      Give(left[giver], left[taker].server, count, plan);
      missing -= count;
      if (missing > 0) ++giver;
    }
  }
  SlicePlan slices(now);
  for (const int server : slices.Leaving()) slices.Drain(server);
  slices.Balance();
  for (BucketTransfer& t : slices.Transfers()) plan.push_back(std::move(t));
  return plan;
}

}  // namespace tandem::ps
