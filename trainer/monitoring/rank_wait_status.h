// How long the ranks of a job have waited for each other, for the status page.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/recent_sum.h"

namespace tandem::trainer {

// Not thread-safe.
class RankWaitStatus {
 public:
  // `metrics`: also gets the waits, as a counter per rank. Both must outlive this object.
  RankWaitStatus(Metrics& metrics, const Clock& clock) : metrics_(metrics), clock_(clock) {}

  // `waited_by_rank`: seconds of each rank since the job began; empty: unknown.
  void Update(std::vector<double> waited_by_rank);
  bool empty() const { return waited_.empty(); }
  double waited(int rank) const;  // seconds. REQUIRES: a rank of the last Update
  // Names the rank for which the others waited in the last minute (http::SlowestText).
  std::string Slowest() const;

 private:
  Metrics& metrics_;
  const Clock& clock_;
  std::vector<double> waited_;     // by rank
  std::vector<RecentSum> recent_;  // by rank
};

}  // namespace tandem::trainer
