#include "trainer/monitoring/trainer_metrics.h"

#include <vector>

namespace tandem::trainer {
namespace {

// Returns the bounds of the buckets for step durations, from 0.1 ms to 100 s.
const std::vector<double>& StepBounds() {
  static const std::vector<double> bounds = {1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1,
                                             0.3,  1,    3,    10,   30,   100};
  return bounds;
}

}  // namespace

TrainerMetrics::TrainerMetrics(Metrics& metrics)
    : steps_total(metrics.GetCounter("tandem_steps_total", "Training steps run")),
      repeated_total(
          metrics.GetCounter("tandem_repeated_steps_total",
                             "Training steps that were repeated after a loss of all ranks")),
      samples_total(metrics.GetCounter("tandem_samples_total", "Samples trained, all ranks")),
      data_wait_total(
          metrics.GetCounter("tandem_data_wait_seconds_total", "Time spent waiting for data")),
      comm_total(metrics.GetCounter("tandem_comm_seconds_total",
                                    "Time in which communication of a step was in progress")),
      comm_exposed_total(metrics.GetCounter("tandem_comm_exposed_seconds_total",
                                            "Time in which a step waited for communication")),
      ranks(metrics.GetGauge("tandem_ranks", "Ranks in the job")),
      step(metrics.GetGauge("tandem_step", "Completed steps of the job")),
      steps_wanted(metrics.GetGauge({"tandem_steps_target", "tandem_steps_wanted"},
                                    "Steps of the whole job")),
      loss(metrics.GetGauge("tandem_loss",
                            "Training loss when last reported, of this rank's share of the batch")),
      eval_loss(metrics.GetGauge("tandem_eval_loss", "Loss of the last evaluation")),
      eval_metric(metrics.GetGauge("tandem_eval_metric", "First metric of the last evaluation")),
      checkpoint_step(metrics.GetGauge("tandem_checkpoint_step", "Step of the last checkpoint")),
      checkpoint_time(metrics.GetGauge("tandem_checkpoint_timestamp_seconds",
                                       "When the last checkpoint was written, in Unix time; 0: "
                                       "never")),
      batches_ready(
          metrics.GetGauge("tandem_reader_batches_ready", "Batches in the reader's queue")),
      stream_records(metrics.GetCounter("tandem_stream_records_total",
                                        "Records of the stream that this trainer has read")),
      stream_skipped(metrics.GetCounter("tandem_stream_skipped_records_total",
                                        "Bad records of the stream among them")),
      stream_removed(metrics.GetCounter("tandem_stream_removed_records_total",
                                        "Records that Kafka removed before this trainer read "
                                        "them, with removed_offsets: SKIP")),
      stream_newest_time(metrics.GetGauge("tandem_stream_newest_timestamp_seconds",
                                          "Time of the newest record of the last step (of its "
                                          "file or message), in Unix time; 0: unknown")),
      stream_lateness(metrics.GetGauge("tandem_stream_lateness_seconds",
                                       "Age of the newest record of the last step when the step "
                                       "ended; 0: unknown")),
      stream_window_loss(metrics.GetGauge("tandem_stream_window_loss",
                                          "Mean training loss of the last window_steps steps, of "
                                          "this rank's share of the batches")),
      stream_window_metric(metrics.GetGauge("tandem_stream_window_metric",
                                            "First metric over the last window_steps steps")),
      step_seconds(metrics.GetHistogram("tandem_step_seconds", "Time of a step", StepBounds())) {}

}  // namespace tandem::trainer
