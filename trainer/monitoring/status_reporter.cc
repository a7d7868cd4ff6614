#include "trainer/monitoring/status_reporter.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/step_number.h"

namespace tandem::trainer {
namespace {

// Bounds from 0.1 ms to 100 s.
const std::vector<double>& StepBounds() {
  static const std::vector<double> bounds = {1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1,
                                             0.3,  1,    3,    10,   30,   100};
  return bounds;
}

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

}  // namespace

void Curve::Add(double x, double y) {
  newest_ = {x, y};
  if (added_++ % stride_ != 0) return;
  if (points_.size() == kPointsMax) {
    size_t kept = 0;
    for (size_t i = 0; i < points_.size(); i += 2) points_[kept++] = points_[i];
    points_.resize(kept);
    stride_ *= 2;
    if ((added_ - 1) % stride_ != 0) return;
  }
  points_.push_back(newest_);
}

std::vector<std::pair<double, double>> Curve::Points() const {
  std::vector<std::pair<double, double>> points = points_;
  if (added_ > 0 && points.back().first != newest_.first) points.push_back(newest_);
  return points;
}

StatusReporter::StatusReporter(Metrics& metrics, const Clock& clock, EventFile* events)
    : clock_(clock),
      metrics_(metrics),
      steps_total_(metrics.GetCounter("tandem_steps_total", "Training steps run")),
      repeated_total_(
          metrics.GetCounter("tandem_repeated_steps_total",
                             "Training steps that were repeated after a loss of all ranks")),
      samples_total_(metrics.GetCounter("tandem_samples_total", "Samples trained, all ranks")),
      data_wait_total_(
          metrics.GetCounter("tandem_data_wait_seconds_total", "Time spent waiting for data")),
      comm_total_(metrics.GetCounter("tandem_comm_seconds_total",
                                     "Time in which communication of a step was in progress")),
      comm_exposed_total_(metrics.GetCounter("tandem_comm_exposed_seconds_total",
                                             "Time in which a step waited for communication")),
      ranks_(metrics.GetGauge("tandem_ranks", "Ranks in the job")),
      step_(metrics.GetGauge("tandem_step", "Completed steps of the job")),
      steps_wanted_(metrics.GetGauge("tandem_steps_wanted", "Steps of the whole job")),
      loss_(metrics.GetGauge(
          "tandem_loss", "Training loss when last reported, of this rank's share of the batch")),
      eval_loss_(metrics.GetGauge("tandem_eval_loss", "Loss of the last evaluation")),
      eval_metric_(metrics.GetGauge("tandem_eval_metric", "First metric of the last evaluation")),
      checkpoint_step_(metrics.GetGauge("tandem_checkpoint_step", "Step of the last checkpoint")),
      checkpoint_time_(metrics.GetGauge("tandem_checkpoint_timestamp_seconds",
                                        "When the last checkpoint was written, in Unix time; 0: "
                                        "never")),
      batches_ready_(
          metrics.GetGauge("tandem_reader_batches_ready", "Batches in the reader's queue")),
      step_seconds_(metrics.GetHistogram("tandem_step_seconds", "Time of a step", StepBounds())),
      events_(events) {}

void StatusReporter::WriteEvents(EventFile* events) {
  MutexLock lock(mu_);
  events_ = events;
}

void StatusReporter::Begin(StatusJob job) {
  MutexLock lock(mu_);
  if (events_ != nullptr && job.program != nullptr) events_->AddGraph(*job.program);
  job_ = std::move(job);
  job_.program = nullptr;
  steps_done_ = job_.first_step;
  begin_ = clock_.Now();
  begun_ = true;
  ended_.clear();
  ranks_.Set(job_.ranks);
  step_.Set(static_cast<double>(steps_done_));
  steps_wanted_.Set(static_cast<double>(job_.steps_total));
}

void StatusReporter::Steps(StatusSteps run) {
  MutexLock lock(mu_);
  CountRankWaits(std::move(run.waited_by_rank));
  data_wait_total_.Add(std::max(0.0, run.data_wait_seconds - data_wait_));
  data_wait_ = run.data_wait_seconds;
  comm_total_.Add(std::max(0.0, run.comm.on_way - comm_.on_way));
  comm_exposed_total_.Add(std::max(0.0, run.comm.exposed - comm_.exposed));
  comm_ = run.comm;
  batches_ready_.Set(run.batches_ready);
  steps_done_ = run.last + 1;
  steps_here_ += run.steps;
  speed_steps_ += run.steps;
  seconds_ += run.seconds;
  speed_seconds_ += run.seconds;
  steps_total_.Add(static_cast<double>(run.steps));
  samples_total_.Add(static_cast<double>(run.steps * job_.samples_per_step));
  step_.Set(static_cast<double>(steps_done_));
  const double each = run.seconds / static_cast<double>(run.steps);
  repeated_total_.Add(static_cast<double>(run.repeated));
  for (int64_t i = run.repeated; i < run.steps; ++i) step_seconds_.Observe(each);
}

void StatusReporter::CountRankWaits(std::vector<double> waited_by_rank) {
  recent_waits_.resize(waited_by_rank.size());
  for (size_t r = 0; r < waited_by_rank.size(); ++r) {
    const double before = r < waited_by_rank_.size() ? waited_by_rank_[r] : 0;
    const double more = std::max(0.0, waited_by_rank[r] - before);
    recent_waits_[r].Add(clock_.Now(), more);
    metrics_
        .GetCounter("tandem_rank_wait_seconds_total",
                    "Time that a rank waited for other ranks in its steps",
                    {{"rank", std::to_string(r)}})
        .Add(more);
  }
  waited_by_rank_ = std::move(waited_by_rank);
}

void StatusReporter::Loss(int64_t step, double loss, double metric, double learning_rate) {
  MutexLock lock(mu_);
  const auto x = static_cast<double>(DisplayStep(step));
  loss_.Set(loss);
  loss_curve_.Add(x, loss);
  metric_curve_.Add(x, metric);
  EventFile::Scalars scalars = {{"train/loss", loss}, {"train/learning_rate", learning_rate}};
  if (!job_.metric.empty()) scalars.emplace_back("train/" + job_.metric, metric);
  if (speed_seconds_ > 0) {
    const auto samples = static_cast<double>(speed_steps_ * job_.samples_per_step);
    speed_curve_.Add(x, samples / speed_seconds_);
    scalars.emplace_back("train/samples_per_second", samples / speed_seconds_);
  }
  if (events_ != nullptr) events_->Add(DisplayStep(step), scalars);
  speed_seconds_ = 0;
  speed_steps_ = 0;
}

void StatusReporter::Evaluation(int64_t step, double loss, double metric) {
  MutexLock lock(mu_);
  eval_loss_.Set(loss);
  eval_metric_.Set(metric);
  eval_curve_.Add(static_cast<double>(step), metric);
  if (events_ == nullptr) return;
  EventFile::Scalars scalars = {{"test/loss", loss}};
  if (!job_.metric.empty()) scalars.emplace_back("test/" + job_.metric, metric);
  events_->Add(step, scalars);
}

void StatusReporter::Parameters(int64_t step, const TensorMap& params) {
  MutexLock lock(mu_);
  if (events_ != nullptr) events_->AddHistograms(step, params);
}

void StatusReporter::Checkpoint(int64_t step) {
  MutexLock lock(mu_);
  saved_step_ = step;
  checkpoint_step_.Set(static_cast<double>(step));
  checkpoint_time_.SetToCurrentTime();
}

void StatusReporter::End(const std::string& how) {
  MutexLock lock(mu_);
  ended_ = how;
}

double StatusReporter::SamplesPerSecond() const {
  return seconds_ > 0 ? static_cast<double>(steps_here_ * job_.samples_per_step) / seconds_ : 0;
}

std::string StatusReporter::Remaining() const {
  if (steps_here_ == 0) return "unknown";
  const double per_step = Seconds(clock_.Now() - begin_) / static_cast<double>(steps_here_);
  const auto left =
      static_cast<int64_t>(per_step * static_cast<double>(job_.steps_total - steps_done_));
  return absl::StrFormat("%d:%02d:%02d", left / 3600, left / 60 % 60, left % 60);
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
    document.progress = static_cast<double>(steps_done_) / static_cast<double>(job_.steps_total);
  }
  const double busy = seconds_ + data_wait_;
  document.facts = {
      {"state", ended_.empty() ? "training" : ended_},
      {"model", job_.model},
      {"mode", job_.mode},
      {"rank", absl::StrFormat("%d of %d", job_.rank, job_.ranks)},
      {"step", absl::StrFormat("%d of %d", steps_done_, job_.steps_total)},
      {"remaining", Remaining()},
      {"samples per second", absl::StrFormat("%.0f", SamplesPerSecond())},
      {"waiting for data", busy > 0 ? Percent(data_wait_ / busy) : "-"},
      {"last checkpoint", saved_step_ < 0 ? "none" : absl::StrFormat("step %d", saved_step_)},
  };
  if (job_.ranks > 1) {
    document.facts.emplace_back("training loss is of", "this rank's share of each batch");
  }
  if (!waited_by_rank_.empty()) {
    std::vector<std::pair<int, double>> waited;
    for (const RecentSum& s : recent_waits_) {
      waited.emplace_back(static_cast<int>(waited.size()), s.Sum(clock_.Now()));
    }
    document.facts.emplace_back(
        "waited for others",
        absl::StrFormat("%.1f s", waited_by_rank_[static_cast<size_t>(job_.rank)]));
    document.facts.emplace_back("slowest", http::SlowestText("rank", waited, "in the last minute"));
  }
  document.series = {{"training loss", "step", loss_curve_.Points()},
                     {"samples per second", "step", speed_curve_.Points()}};
  if (!job_.metric.empty()) {
    document.series.push_back({"training " + job_.metric, "step", metric_curve_.Points()});
    document.series.push_back({"test " + job_.metric, "step", eval_curve_.Points()});
  }
  return document;
}

}  // namespace tandem::trainer
