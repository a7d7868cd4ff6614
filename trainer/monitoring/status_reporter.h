// Publishes a trainer's state while it runs: metrics for scrapers, facts and curves for its status
// page (common/http/status_page.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/http/status_page.h"
#include "kernels/exec/comm.h"
#include "trainer/monitoring/event_file.h"
#include "trainer/monitoring/rank_wait_status.h"
#include "trainer/monitoring/run_totals.h"
#include "trainer/monitoring/trainer_metrics.h"
#include "trainer/monitoring/training_curves.h"

namespace tandem::trainer {

struct StatusJob {
  std::string name, mode, model;
  std::string metric;  // "accuracy", "auc"; "": none
  int rank = 0, ranks = 1;
  int64_t first_step = 0, steps_total = 0;
  int64_t samples_per_step = 0;      // over all ranks
  const Program* program = nullptr;  // the training program; not kept
};

// A run of steps; `last` is its last step.
struct StatusSteps {
  int64_t last = 0, steps = 1;
  double seconds = 0;                  // duration of its steps, without waiting for data
  std::vector<double> waited_by_rank;  // wait of each rank for the others; empty: unknown
  double data_wait_seconds = 0;        // since the session began
  uint32_t batches_ready = 0;          // batches ready in the reader
  CommTimes comm = {};                 // since the session began
  int64_t repeated = 0;  // the first of `steps`, which the job had done before its loss
};

// Thread-safe.
class StatusReporter {
 public:
  // `events`: a file that gets the curves too; nullptr: none. All arguments must outlive the
  // reporter.
  StatusReporter(Metrics& metrics, const Clock& clock, EventFile* events = nullptr);

  void Begin(StatusJob job);
  void Steps(StatusSteps run);
  // From now on writes curves to `events` too (nullptr: to none).
  void WriteEvents(EventFile* events);
  // Called once the values are known.
  void Loss(int64_t step, double loss, double metric, double learning_rate);
  void Evaluation(int64_t step, double loss, double metric);
  // Whether an evaluation should call Parameters.
  bool wants_parameters() const {
    MutexLock lock(mu_);
    return events_ != nullptr;
  }
  void Parameters(int64_t step, const TensorMap& params);
  void Checkpoint(int64_t step);
  void End(const std::string& how);  // `how`: "done", or the error

  http::StatusDocument Document() const;

 private:
  const Clock& clock_;
  TrainerMetrics metrics_;

  mutable Mutex mu_;
  EventFile* events_ TD_GUARDED_BY(mu_);
  StatusJob job_ TD_GUARDED_BY(mu_);
  bool begun_ TD_GUARDED_BY(mu_) = false;
  std::string ended_ TD_GUARDED_BY(mu_);
  int64_t saved_step_ TD_GUARDED_BY(mu_) = -1;
  RunTotals totals_ TD_GUARDED_BY(mu_);
  RankWaitStatus waits_ TD_GUARDED_BY(mu_);
  TrainingCurves curves_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::trainer
