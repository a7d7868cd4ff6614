// The times that the ranks of a job have waited for each other, for the status page.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/recent_sum.h"

namespace tandem::trainer {

// The waiting times of all ranks. Not thread-safe.
class RankWaitStatus {
 public:
  // `metrics`: the registry with a counter per rank, which also receive the waiting times.
  // `metrics` and `clock` must outlive this object.
  RankWaitStatus(Metrics& metrics, const Clock& clock) : metrics_(metrics), clock_(clock) {}

  // Sets the seconds that each rank has waited since the job began; empty: unknown.
  void Update(std::vector<double> waited_by_rank);
  bool empty() const { return waited_.empty(); }
  // Returns the seconds that `rank` has waited. REQUIRES: the last Update had this rank.
  double waited(int rank) const;
  // Returns a text that names the rank for which the other ranks waited in the last minute
  // (http::SlowestText).
  std::string Slowest() const;

 private:
  Metrics& metrics_;
  const Clock& clock_;
  std::vector<double> waited_;     // by rank: seconds of waiting since the job began
  std::vector<RecentSum> recent_;  // by rank: seconds of waiting in the last minute
};

}  // namespace tandem::trainer
