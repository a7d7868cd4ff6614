// Publishes a trainer's state while it runs: metrics for scrapers, facts and curves for its status
// page (common/http/status_page.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/recent_sum.h"
#include "common/http/status_page.h"
#include "kernels/exec/comm.h"
#include "trainer/monitoring/event_file.h"

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

// A curve of bounded size. If it is full, it drops every second point, and from then on keeps every
// second new point. It always has the newest point.
class Curve {
 public:
  static constexpr size_t kPointsMax = 1024;
  void Add(double x, double y);
  std::vector<std::pair<double, double>> Points() const;

 private:
  std::vector<std::pair<double, double>> points_;
  std::pair<double, double> newest_;
  uint64_t added_ = 0, stride_ = 1;
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
  void CountRankWaits(std::vector<double> waited_by_rank) TD_REQUIRES(mu_);
  double SamplesPerSecond() const TD_REQUIRES(mu_);
  std::string Remaining() const TD_REQUIRES(mu_);

  const Clock& clock_;
  Metrics& metrics_;
  Counter &steps_total_, &repeated_total_, &samples_total_, &data_wait_total_, &comm_total_,
      &comm_exposed_total_;
  Gauge &ranks_, &step_, &steps_wanted_, &loss_, &eval_loss_, &eval_metric_, &checkpoint_step_;
  Gauge &checkpoint_time_, &batches_ready_;
  Histogram& step_seconds_;

  mutable Mutex mu_;
  EventFile* events_ TD_GUARDED_BY(mu_);
  StatusJob job_ TD_GUARDED_BY(mu_);
  bool begun_ TD_GUARDED_BY(mu_) = false;
  std::string ended_ TD_GUARDED_BY(mu_);
  int64_t steps_done_ TD_GUARDED_BY(mu_) = 0;  // by the whole job
  int64_t steps_here_ TD_GUARDED_BY(mu_) = 0;
  double seconds_ TD_GUARDED_BY(mu_) = 0, data_wait_ TD_GUARDED_BY(mu_) = 0;
  CommTimes comm_ TD_GUARDED_BY(mu_);
  std::vector<double> waited_by_rank_ TD_GUARDED_BY(mu_);
  std::vector<RecentSum> recent_waits_ TD_GUARDED_BY(mu_);  // by rank
  int64_t saved_step_ TD_GUARDED_BY(mu_) = -1;
  Time begin_ TD_GUARDED_BY(mu_);
  Curve loss_curve_ TD_GUARDED_BY(mu_), metric_curve_ TD_GUARDED_BY(mu_);
  Curve speed_curve_ TD_GUARDED_BY(mu_), eval_curve_ TD_GUARDED_BY(mu_);
  double speed_seconds_ TD_GUARDED_BY(mu_) = 0;  // time of the steps since the last point of the
                                                 // speed curve
  int64_t speed_steps_ TD_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::trainer
