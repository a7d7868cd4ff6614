#include "trainer/monitoring/rank_wait_status.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/http/status_page.h"

namespace tandem::trainer {

void RankWaitStatus::Update(std::vector<double> waited_by_rank) {
  recent_.resize(waited_by_rank.size());
  for (size_t r = 0; r < waited_by_rank.size(); ++r) {
    const double before = r < waited_.size() ? waited_[r] : 0;
    const double more = std::max(0.0, waited_by_rank[r] - before);
    recent_[r].Add(clock_.Now(), more);
    metrics_
        .GetCounter("tandem_rank_wait_seconds_total",
                    "Time that a rank waited for other ranks in its steps",
                    {{"rank", std::to_string(r)}})
        .Add(more);
  }
  waited_ = std::move(waited_by_rank);
  DCHECK_EQ(waited_.size(), recent_.size());
}

double RankWaitStatus::waited(int rank) const {
  TD_REQUIRE(rank >= 0 && static_cast<size_t>(rank) < waited_.size());
  return waited_[static_cast<size_t>(rank)];
}

std::string RankWaitStatus::Slowest() const {
  std::vector<std::pair<int, double>> waited;
  for (const RecentSum& s : recent_) {
    waited.emplace_back(static_cast<int>(waited.size()), s.Sum(clock_.Now()));
  }
  return http::SlowestText("rank", waited, "in the last minute");
}

}  // namespace tandem::trainer
