// Metrics of the pushes, pulls and waits of one shard.
#pragma once

#include "common/base/metrics.h"

namespace tandem::pserver {

// References to the metrics of one shard. Thread-safe.
struct ShardCounters {
  // `metrics` must outlive this object.
  explicit ShardCounters(Metrics& metrics);

  Counter &pushes, &push_bytes, &duplicates, &refused, &pulls, &pull_bytes, &updates;
  Counter &rejected, &skipped;  // pushes that were rejected or skipped because of NaN or infinity
  Counter& lost_pushes;
  Gauge& missing_pushes;
  Histogram &barrier_wait, &pull_wait, &update_time, &staleness, &hold;
};

}  // namespace tandem::pserver
