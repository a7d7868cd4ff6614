// The metrics of a process that follows a primary.
#pragma once

#include <algorithm>

#include "common/base/metrics.h"
#include "pserver/replication/log_follower.h"

namespace tandem::pserver {

// Thread-safe.
class FollowerGauges {
 public:
  // `metrics` must outlive this object.
  explicit FollowerGauges(Metrics& metrics)
      : entries_(metrics.GetGauge("tandem_pserver_follower_lag_entries",
                                  "Log entries of the primary that this standby or replica lacks")),
        seconds_(metrics.GetGauge(
            "tandem_pserver_follower_lag_seconds",
            "Seconds since this standby or replica last had all entries of its primary")) {}

  // Shows the progress after a request.
  void Show(const LogFollower::Progress& progress) {
    const uint64_t last = std::min(progress.primary_last, progress.position.last);
    entries_.Set(static_cast<double>(progress.primary_last - last));
    if (progress.current != Time()) seconds_.Set(Seconds(SteadyNow() - progress.current));
  }
  // Shows that this process follows no more.
  void Clear() {
    entries_.Set(0);
    seconds_.Set(0);
  }

 private:
  Gauge &entries_, &seconds_;
};

}  // namespace tandem::pserver
