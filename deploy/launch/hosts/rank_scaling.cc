#include "deploy/launch/hosts/rank_scaling.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "common/base/require.h"

namespace tandem::deploy {

RankScaling::Change RankScaling::SetTarget(int target, int ranks, const std::set<int>& running,
                                           const std::set<int>& members, Time now) {
  TD_REQUIRE(target > 0 && target <= ranks);
  std::vector<int> active;
  std::ranges::copy_if(running, std::back_inserter(active),
                       [this](int rank) { return !IsRetired(rank); });
  Change change;
  growing_to_ = static_cast<int>(active.size()) < target ? target : 0;
  if (growing_to_ > 0) {
    change.start = Missing(ranks, running);
    return change;
  }
  // The newest ranks are first.
  std::ranges::sort(active, [this, &members](int a, int b) {
    const auto age = [this, &members](int rank) {
      const auto joined = joined_.find(rank);
      return std::make_tuple(!members.contains(rank), joined == joined_.end() ? 0 : joined->second,
                             rank);
    };
    return age(a) > age(b);
  });
  active.resize(active.size() - static_cast<size_t>(target));
  for (const int rank : active) retired_[rank] = {.kill_at = now + retire_max_};
  change.retire = std::move(active);
  return change;
}

std::vector<int> RankScaling::Missing(int ranks, const std::set<int>& running) const {
  const auto active = std::ranges::count_if(running, [this](int r) { return !IsRetired(r); });
  int missing = growing_to_ - static_cast<int>(active);
  std::vector<int> start;
  // A retired rank that still runs starts again after its end (OnEnded).
  for (int rank = 0; rank < ranks && missing > 0; ++rank) {
    if (running.contains(rank)) continue;
    start.push_back(rank);
    --missing;
  }
  return start;
}

bool RankScaling::Dismiss(int rank) {
  const auto it = retired_.find(rank);
  return it != retired_.end() && !std::exchange(it->second.dismissed, true);
}

std::vector<int> RankScaling::TakeOverdue(Time now) {
  std::vector<int> overdue;
  for (auto& [rank, retired] : retired_) {
    if (now < retired.kill_at) continue;
    retired.kill_at = Time::max();
    overdue.push_back(rank);
  }
  return overdue;
}

Time RankScaling::wakeup() const {
  Time at = Time::max();
  for (const auto& [rank, retired] : retired_) at = std::min(at, retired.kill_at);
  return at;
}

std::vector<int> RankScaling::OnEnded(int rank, int ranks, const std::set<int>& running) {
  TD_REQUIRE(IsRetired(rank));
  retired_.erase(rank);
  joined_.erase(rank);
  return growing_to_ > 0 ? Missing(ranks, running) : std::vector<int>();
}

}  // namespace tandem::deploy
