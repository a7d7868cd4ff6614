// Publishes the state of a running trainer: metrics for scrapers, and facts and curves for its
// status page (common/http/status_page.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/http/status_page.h"
#include "kernels/exec/comm.h"
#include "trainer/monitoring/event_file.h"
#include "trainer/monitoring/progress.h"
#include "trainer/monitoring/rank_wait_status.h"
#include "trainer/monitoring/run_totals.h"
#include "trainer/monitoring/trainer_metrics.h"
#include "trainer/monitoring/training_curves.h"

namespace tandem::trainer {

struct StatusJob {
  std::string name, mode, model;
  std::string metric;  // name of the metric ("accuracy", "auc"); "": no metric
  int rank = 0, ranks = 1;
  int64_t first_step = 0, steps_total = 0;  // steps_total 0: the job has no last step
  int64_t samples_per_step = 0;             // samples of a step on all ranks
  const graph::Program* program = nullptr;  // the training program; must exist until Begin has
                                            // returned
};

// A run of training steps; `last` is its last step.
struct StatusSteps {
  int64_t last = 0, steps = 1;
  double seconds = 0;  // duration of the run's steps, without waiting for data
  // Seconds that each rank has waited for the other ranks; empty: unknown.
  std::vector<double> waited_by_rank;
  double data_wait_seconds = 0;  // seconds waited for data since the session began
  uint32_t batches_ready = 0;    // batches that the reader has ready
  exec::CommTimes comm = {};     // communication times since the session began
  // Number of repeated steps at the start of the run. The job repeats steps after a loss of all
  // ranks.
  int64_t repeated = 0;
  std::optional<StreamReport> stream = {};  // nullopt: the training data is no stream
};

// Collects the state of a trainer. Thread-safe.
class StatusReporter {
 public:
  // `events`: a file that also receives the curves; nullptr: no file. All arguments must outlive
  // this object.
  StatusReporter(Metrics& metrics, const Clock& clock, EventFile* events = nullptr);

  void Begin(StatusJob job);
  void Steps(StatusSteps run);
  // Sets the file that receives the curves from now on; nullptr: no file.
  void WriteEvents(EventFile* events);
  // Loss reports the loss and the metric of a training step, Evaluation those of an evaluation.
  void Loss(int64_t step, double loss, double metric, double learning_rate);
  void Evaluation(int64_t step, double loss, double metric);
  // Returns whether the caller must call Parameters after an evaluation.
  bool wants_parameters() const {
    MutexLock lock(mu_);
    return events_ != nullptr;
  }
  void Parameters(int64_t step, const TensorMap& params);
  void Checkpoint(int64_t step);
  // Ends the run. `how`: "done", or the text of the error.
  void End(const std::string& how);

  http::StatusDocument Document() const;

 private:
  void AddStream(const StreamReport& stream) TD_REQUIRES(mu_);

  const Clock& clock_;
  TrainerMetrics metrics_;

  mutable Mutex mu_;
  EventFile* events_ TD_GUARDED_BY(mu_);
  StatusJob job_ TD_GUARDED_BY(mu_);
  bool begun_ TD_GUARDED_BY(mu_) = false;
  std::string ended_ TD_GUARDED_BY(mu_);
  int64_t saved_step_ TD_GUARDED_BY(mu_) = -1;
  RunTotals totals_ TD_GUARDED_BY(mu_);
  StreamReport stream_ TD_GUARDED_BY(mu_);  // the last report of the stream
  RankWaitStatus waits_ TD_GUARDED_BY(mu_);
  TrainingCurves curves_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::trainer
