// The metrics of a trainer (docs/reference/metrics.md).
#pragma once

#include "common/base/metrics.h"

namespace tandem::trainer {

// References to the trainer's metrics in the registry `metrics`, which must outlive this object.
struct TrainerMetrics {
  explicit TrainerMetrics(Metrics& metrics);

  Counter& steps_total;
  Counter& repeated_total;
  Counter& samples_total;
  Counter& data_wait_total;
  Counter& comm_total;
  Counter& comm_exposed_total;
  Gauge& ranks;
  Gauge& step;
  Gauge& steps_wanted;
  Gauge& loss;
  Gauge& eval_loss;
  Gauge& eval_metric;
  Gauge& checkpoint_step;
  Gauge& checkpoint_time;
  Gauge& batches_ready;
  Counter& stream_records;
  Counter& stream_skipped;
  Counter& stream_removed;
  Gauge& stream_newest_time;
  Gauge& stream_lateness;
  Gauge& stream_window_loss;
  Gauge& stream_window_metric;
  Histogram& step_seconds;
};

}  // namespace tandem::trainer
