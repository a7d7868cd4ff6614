#include "trainer/monitoring/status_reporter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "common/base/step_number.h"

namespace tandem::trainer {
namespace {

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

}  // namespace

StatusReporter::StatusReporter(Metrics& metrics, const Clock& clock, EventFile* events)
    : clock_(clock), metrics_(metrics), events_(events), waits_(metrics, clock) {}

void StatusReporter::WriteEvents(EventFile* events) {
  MutexLock lock(mu_);
  events_ = events;
}

void StatusReporter::Begin(StatusJob job) {
  MutexLock lock(mu_);
  if (events_ != nullptr && job.program != nullptr) events_->AddGraph(*job.program);
  job_ = std::move(job);
  job_.program = nullptr;
  totals_.Begin(job_.first_step, job_.steps_total, job_.samples_per_step, clock_.Now());
  begun_ = true;
  ended_.clear();
  metrics_.ranks.Set(job_.ranks);
  metrics_.step.Set(static_cast<double>(job_.first_step));
  metrics_.steps_wanted.Set(static_cast<double>(job_.steps_total));
}

void StatusReporter::Steps(StatusSteps run) {
  MutexLock lock(mu_);
  TD_REQUIRE(run.steps > 0 && run.repeated >= 0 && run.repeated <= run.steps);
  waits_.Update(std::move(run.waited_by_rank));
  const RunTotals::Added added = totals_.SetTimes(run.data_wait_seconds, run.comm);
  totals_.AddRun(run.last, run.steps, run.seconds);
  curves_.AddRun(run.steps, run.seconds);
  metrics_.data_wait_total.Add(added.data_wait);
  metrics_.comm_total.Add(added.comm.on_way);
  metrics_.comm_exposed_total.Add(added.comm.exposed);
  metrics_.batches_ready.Set(run.batches_ready);
  metrics_.steps_total.Add(static_cast<double>(run.steps));
  metrics_.samples_total.Add(static_cast<double>(run.steps * job_.samples_per_step));
  metrics_.step.Set(static_cast<double>(totals_.steps_done()));
  if (run.stream) AddStream(*run.stream);
  const double each = run.seconds / static_cast<double>(run.steps);
  metrics_.repeated_total.Add(static_cast<double>(run.repeated));
  for (int64_t i = run.repeated; i < run.steps; ++i) metrics_.step_seconds.Observe(each);
}

void StatusReporter::AddStream(const StreamReport& stream) {
  metrics_.stream_records.Add(static_cast<double>(stream.records - stream_.records));
  metrics_.stream_skipped.Add(static_cast<double>(stream.skipped - stream_.skipped));
  metrics_.stream_removed.Add(static_cast<double>(stream.removed - stream_.removed));
  metrics_.stream_newest_time.Set(static_cast<double>(stream.newest_time_ms) / 1000);
  metrics_.stream_lateness.Set(std::max(stream.lateness_s, 0.0));
  metrics_.stream_window_loss.Set(stream.window.loss);
  metrics_.stream_window_metric.Set(stream.window.metric);
  stream_ = stream;
}

void StatusReporter::Loss(int64_t step, double loss, double metric, double learning_rate) {
  MutexLock lock(mu_);
  const auto x = static_cast<double>(DisplayStep(step));
  metrics_.loss.Set(loss);
  const std::optional<double> speed = curves_.AddLoss(x, loss, metric, job_.samples_per_step);
  if (events_ == nullptr) return;
  std::vector<EventFile::Scalar> scalars = {{"train/loss", loss},
                                            {"train/learning_rate", learning_rate}};
  if (!job_.metric.empty()) scalars.push_back({"train/" + job_.metric, metric});
  if (speed) scalars.push_back({"train/samples_per_second", *speed});
  events_->Add(DisplayStep(step), scalars);
}

void StatusReporter::Evaluation(int64_t step, double loss, double metric) {
  MutexLock lock(mu_);
  metrics_.eval_loss.Set(loss);
  metrics_.eval_metric.Set(metric);
  curves_.AddEvaluation(static_cast<double>(step), metric);
  if (events_ == nullptr) return;
  std::vector<EventFile::Scalar> scalars = {{"test/loss", loss}};
  if (!job_.metric.empty()) scalars.push_back({"test/" + job_.metric, metric});
  events_->Add(step, scalars);
}

void StatusReporter::Parameters(int64_t step, const TensorMap& params) {
  MutexLock lock(mu_);
  if (events_ != nullptr) events_->AddHistograms(step, params);
}

void StatusReporter::Checkpoint(int64_t step) {
  MutexLock lock(mu_);
  saved_step_ = step;
  metrics_.checkpoint_step.Set(static_cast<double>(step));
  metrics_.checkpoint_time.SetToCurrentTime();
}

void StatusReporter::End(const std::string& how) {
  MutexLock lock(mu_);
  ended_ = how;
}

http::StatusDocument StatusReporter::Document() const {
  MutexLock lock(mu_);
  http::StatusDocument document;
  document.title = absl::StrFormat("tandem-trainer %d of job %s", job_.rank, job_.name);
  document.ready = begun_ && ended_.empty();
  if (!begun_) {
    document.title = "tandem-trainer";
    document.facts = {{"state", "starting: waiting for data, servers or peers"}};
    return document;
  }
  if (job_.steps_total > 0) {
    document.progress =
        static_cast<double>(totals_.steps_done()) / static_cast<double>(job_.steps_total);
  }
  const double waiting = totals_.DataWaitShare();
  document.facts = {
      {"state", ended_.empty() ? "training" : ended_},
      {"model", job_.model},
      {"mode", job_.mode},
      {"rank", absl::StrFormat("%d of %d", job_.rank, job_.ranks)},
      {"step", job_.steps_total > 0
                   ? absl::StrFormat("%d of %d", totals_.steps_done(), job_.steps_total)
                   : absl::StrFormat("%d", totals_.steps_done())},
      {"remaining", totals_.Remaining(clock_.Now())},
      {"samples per second", absl::StrFormat("%.0f", totals_.SamplesPerSecond())},
      {"waiting for data", waiting >= 0 ? Percent(waiting) : "-"},
      {"last checkpoint", saved_step_ < 0 ? "none" : absl::StrFormat("step %d", saved_step_)},
  };
  if (job_.ranks > 1) {
    document.facts.emplace_back("training loss is of", "this rank's share of each batch");
  }
  if (!waits_.empty()) {
    document.facts.emplace_back("waited for others",
                                absl::StrFormat("%.1f s", waits_.waited(job_.rank)));
    document.facts.emplace_back("slowest", waits_.Slowest());
  }
  document.series = curves_.Series(job_.metric);
  return document;
}

}  // namespace tandem::trainer
