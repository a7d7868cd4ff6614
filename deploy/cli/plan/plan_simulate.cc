#include "deploy/cli/plan/plan_simulate.h"

#include <algorithm>
#include <map>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::deploy {
namespace {

// Maximum number of ranks for which the direct algorithm is simulated.
constexpr int kDirectRanksMax = 128;

// Simulates the job with one number of ranks.
class Scale {
 public:
  Scale(const SimulationRequest& request, int ranks)
      : request_(request), layout_{ranks, request.layout.ranks_per_host} {
    TD_REQUIRE(ranks > 0 && request.layout.ranks_per_host > 0);
    if (request.slow_rank < 0) return;
    starts_.slow_rank = request.slow_rank % ranks;
    starts_.slow_factor = request.slow_factor;
  }

  StatusOr<ScalePoint> Take(const PlanJob& job);

 private:
  StatusOr<AlgorithmSeconds> Alone(const PlanBucket& bucket);
  StatusOr<double> Step(const PlanJob& job, const ScalePoint& point) const;
  StatusOr<std::vector<double>> Ends(collective::AllReduceAlgorithm algorithm,
                                     const PlanBucket& bucket,
                                     const collective::RankSkew& starts) const {
    return collective::SimulateAllReduce(algorithm, layout_, layout_.ranks_per_host, bucket.count,
                                         bucket.element_bytes, request_.model, starts);
  }

  const SimulationRequest& request_;
  const collective::RankLayout layout_;
  collective::RankSkew starts_;
  // Results of earlier simulations, by number of elements and bytes of an element.
  std::map<std::pair<size_t, size_t>, AlgorithmSeconds> known_;
};

double Last(const std::vector<double>& ends) {
  TD_REQUIRE(!ends.empty());
  return *std::max_element(ends.begin(), ends.end());
}

StatusOr<AlgorithmSeconds> Scale::Alone(const PlanBucket& bucket) {
  const auto [it, added] = known_.try_emplace({bucket.count, bucket.element_bytes});
  if (!added) return it->second;
  for (const collective::AllReduceAlgorithm algorithm : collective::kAllReduceAlgorithms) {
    it->second.emplace_back();
    if (!collective::Serves(algorithm, layout_.ranks, layout_.ranks_per_host)) continue;
    if (algorithm == collective::AllReduceAlgorithm::kDirect && layout_.ranks > kDirectRanksMax)
      continue;
    const auto ends = Ends(algorithm, bucket, starts_);
    if (ends.status().code() == StatusCode::kResourceExhausted) continue;
    if (!ends.ok()) return ends.status();
    it->second.back() = Last(*ends);
  }
  return it->second;
}

StatusOr<double> Scale::Step(const PlanJob& job, const ScalePoint& point) const {
  TD_REQUIRE(point.buckets.size() == job.buckets.size());
  const bool alike = starts_.slow_rank < 0;
  std::vector<double> at(alike ? 1 : static_cast<size_t>(layout_.ranks), 0.0);
  collective::RankSkew starts = starts_;
  for (size_t b = 0; b < job.buckets.size(); ++b) {
    const collective::AllReduceAlgorithm best = BestOf(point.buckets[b]);
    for (size_t r = 0; r < at.size(); ++r) {
      const bool slow = !alike && static_cast<int>(r) == starts_.slow_rank;
      const double ready =
          job.buckets[b].ready * request_.compute * (slow ? starts_.slow_factor : 1);
      at[r] = std::max(at[r], ready);
    }
    if (alike) {
      at[0] += *point.buckets[b][static_cast<size_t>(best)];
      continue;
    }
    starts.start = at;
    TD_ASSIGN_OR_RETURN(at, Ends(best, job.buckets[b], starts));
  }
  return std::max(Last(at), request_.compute * (alike ? 1 : starts_.slow_factor));
}

StatusOr<ScalePoint> Scale::Take(const PlanJob& job) {
  ScalePoint point;
  point.ranks = layout_.ranks;
  point.hosts = layout_.ranks / layout_.ranks_per_host;
  point.all.resize(collective::kAllReduceAlgorithms.size(), 0.0);
  for (const PlanBucket& bucket : job.buckets) {
    TD_ASSIGN_OR_RETURN(point.buckets.emplace_back(), Alone(bucket));
    for (size_t a = 0; a < point.all.size(); ++a) {
      const auto& seconds = point.buckets.back()[a];
      if (!seconds) point.all[a].reset();
      if (point.all[a]) *point.all[a] += *seconds;
    }
  }
  TD_ASSIGN_OR_RETURN(point.step, Step(job, point));
  return point;
}

}  // namespace

collective::AllReduceAlgorithm BestOf(const AlgorithmSeconds& seconds) {
  std::optional<size_t> best;
  for (size_t a = 0; a < seconds.size(); ++a) {
    if (seconds[a] && (!best || *seconds[a] < *seconds[*best])) best = a;
  }
  CHECK(best.has_value());
  return collective::kAllReduceAlgorithms[*best];
}

StatusOr<Simulation> Simulate(const PlanJob& job, const SimulationRequest& request) {
  Simulation simulation;
  const int last = request.layout.ranks;
  int ranks = std::max(2, request.layout.ranks_per_host);
  while (true) {
    ranks = std::min(ranks, last);
    TD_ASSIGN_OR_RETURN(simulation.points.emplace_back(), Scale(request, ranks).Take(job));
    if (ranks == last) return simulation;
    ranks *= 2;
  }
}

}  // namespace tandem::deploy
