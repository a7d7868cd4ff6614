#include "trainer/session/session.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/base/require.h"
#include "common/base/step_number.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"
#include "trainer/files/step_high_water_mark.h"
#include "trainer/modes/state/scope_state.h"
#include "trainer/monitoring/status_reporter.h"
#include "trainer/reader/stream/stream_dataset.h"
#include "trainer/session/elastic_state.h"
#include "trainer/session/param_checksums.h"
#include "trainer/session/plan_options.h"
#include "trainer/session/programs.h"
#include "trainer/session/session_checkpoints.h"
#include "trainer/session/step_runner.h"
#include "trainer/session/training_window.h"

namespace tandem::trainer {
namespace {

// Returns the number of steps of the run that begins with `step`: num_iteration_per_run, or fewer.
// A run ends before work that must be done between two steps, such as an evaluation.
int64_t RunLengthOf(const JobConfig& config, int64_t step, int64_t steps_total,
                    int64_t steps_per_epoch) {
  TD_REQUIRE(step < steps_total && steps_per_epoch > 0);
  const int64_t save_every = config.checkpoint().every_steps();
  int64_t length = config.strategy().execution_strategy().num_iteration_per_run();
  length = std::min({length, steps_total - step, steps_per_epoch - step % steps_per_epoch});
  return save_every > 0 ? std::min(length, save_every - step % save_every) : length;
}

// A rank that waits for records of a stream checks at this interval whether a stop was requested.
constexpr Duration kStopInterval = std::chrono::milliseconds(100);
// Time for which a rank other than the leader still waits for records after a stop was requested.
constexpr Duration kStopPatience = std::chrono::seconds(1);

// Returns the state of a stream after `step` for reports. nullopt: the data is no stream.
std::optional<StreamReport> StreamReportOf(const reader::StreamDataset* stream, int64_t step,
                                           const TrainingWindow& window) {
  if (stream == nullptr) return std::nullopt;
  const reader::StreamCounts counts = stream->counts(static_cast<uint64_t>(step));
  StreamReport report{.records = static_cast<int64_t>(counts.records),
                      .skipped = static_cast<int64_t>(counts.skipped),
                      .removed = static_cast<int64_t>(counts.removed),
                      .newest_time_ms = counts.newest_time_ms,
                      .window = window.report()};
  if (report.newest_time_ms == 0) return report;
  const Duration now = std::chrono::system_clock::now().time_since_epoch();
  const Duration newest = std::chrono::milliseconds(report.newest_time_ms);
  report.lateness_s = std::max(Seconds(now - newest), 0.0);
  return report;
}

// Returns the length of the window of a stream's loss and metric. 0: there is no window.
int64_t WindowSteps(const JobConfig& config) {
  const bool has_window = config.data().has_stream() && !config.strategy().pipeline();
  return has_window ? config.data().stream().window_steps() : 0;
}

// Describes, for the status page, the session that begins with step `next`.
StatusJob StatusJobOf(const JobConfig& config, const SessionOptions& options,
                      const graph::Program& program, const std::string& metric, int64_t next,
                      int64_t steps_total) {
  return {.name = config.name(),
          .mode = Mode_Name(config.mode()),
          .model = config.model().has_zoo() ? config.model().zoo() : config.model().program(),
          .metric = metric,
          .rank = options.rank.rank,
          .ranks = options.rank.size,
          .first_step = next,
          .steps_total = steps_total,
          .samples_per_step = options.global_batch,
          .program = &program};
}

}  // namespace

class Session::Impl {
 public:
  Impl(const JobConfig& config, SessionOptions options, TrainingMode mode, const Clock& clock,
       const std::atomic<bool>& stop)
      : config_(config),
        options_(std::move(options)),
        mode_(std::move(mode)),
        clock_(clock),
        stop_(stop),
        window_(WindowSteps(config)) {}

  Status Open();
  StatusOr<SessionResult> Run();
  std::shared_ptr<const ElasticState> TakeKept() { return std::move(kept_); }

 private:
  void OpenProgress();
  Status LoadCheckpoint();
  Status StartMode();
  Status TrainLoop();
  Status TrainFrom(int64_t* from);
  Status Recover(const Status& why, int64_t* next);
  bool superseded() const { return options_.superseded && options_.superseded(); }
  // Returns the status of a run that was stopped after `steps` steps. `saves`: this trainer writes
  // a checkpoint of the last step, if the job has a checkpoint directory.
  Status Stopped(int64_t steps, bool saves) const {
    const std::string& dir = config_.checkpoint().dir();
    if (options_.stream != nullptr && config_.mode() == PSERVER && dir.empty()) {
      return Cancelled(
          "training stopped on request after step %d; the pservers have the position in the stream "
          "[TD7007]",
          steps);
    }
    if (dir.empty()) {
      return Cancelled(
          "training stopped on request after step %d; nothing was saved, because checkpoint.dir is "
          "not set "
          "[TD7007]",
          steps);
    }
    if (!saves) return Cancelled("training stopped on request after step %d [TD7007]", steps);
    return Cancelled("training stopped on request after step %d; the checkpoint is in %s [TD7007]",
                     steps, dir);
  }
  Status AwaitRecords(int64_t next);
  Status TrainRun(int64_t first, int64_t steps);
  Status AfterWatched(bool last);
  void Tell(const std::string& lines);
  Status CheckParams(int64_t step, int64_t steps);
  void Report(int64_t step, int64_t steps);
  Status AfterRun(int64_t step, int64_t steps, bool stopping);
  Status AfterStep(int64_t step, bool stopping);
  bool SavesAfter(int64_t step) const;
  Status Save(int64_t step);
  Status Evaluate(int64_t epoch);
  StatusOr<SessionResult> Result();

  bool speed_test() const {
    return config_.strategy().runtime_flags().reader_queue_speed_test_mode();
  }
  bool leader() const { return options_.rank.rank == 0; }
  // Returns whether this rank records its steps. With a_sync the trainers count their steps
  // separately, so only the leader records its steps.
  bool CountsRepeats() const {
    return furthest_.has_value() && (leader() || !config_.strategy().a_sync());
  }
  const graph::Program& program() const { return runner_->programs().train; }
  int64_t steps_per_epoch() const { return runner_->steps_per_epoch(); }
  bool ends_epoch(int64_t step) const { return (step + 1) % steps_per_epoch() == 0; }
  // Returns the number of steps of the job for reports. 0: the job has no last step.
  int64_t steps_known() const { return steps_total_ == kEndless ? 0 : steps_total_; }

  const JobConfig& config_;
  const SessionOptions options_;
  const TrainingMode mode_;
  const Clock& clock_;
  const std::atomic<bool>& stop_;
  const std::function<bool()> told_ = [this] { return stop_.load() || superseded(); };
  std::unique_ptr<StepRunner> runner_;
  // nullopt: this rank is not the leader, or the job has no checkpoints
  std::optional<SessionCheckpoints> checkpoints_;
  std::optional<StepHighWaterMark> furthest_;  // nullopt: the job has no checkpoints
  std::unique_ptr<Progress> progress_;
  TensorMap restored_state_;
  std::shared_ptr<const ElasticState> kept_;

  int64_t first_step_ = 0, steps_total_ = 0, steps_done_ = 0;
  int64_t done_before_ = 0;  // number of steps that lost processes had done
  int64_t repeated_ = 0;     // number of steps that this session has repeated
  double train_seconds_ = 0;
  RunHistory history_;
  bool reports_ = false;   // whether the current run is reported; determined before the run
  TrainingWindow window_;  // last steps of a stream
  StepRunner::Ran ran_;    // loss, metric and duration of the last run
  std::optional<uint32_t> checksum_;  // checksum of the parameters, if the last run has one
  Evaluation evaluation_;
  Time begin_;
};

void Session::Impl::OpenProgress() {
  ProgressOptions progress = options_.progress;
  progress.worker_index = options_.rank.rank;
  progress.steps_total = steps_known();
  progress.waits_are_normal = options_.stream != nullptr;
  progress.first_step = first_step_ + steps_done_;
  progress.log_every_steps = config_.log_every_steps();
  progress_ = std::make_unique<Progress>(progress, options_.sink, clock_);
}

Status Session::Impl::LoadCheckpoint() {
  const std::string& dir = config_.checkpoint().dir();
  if (dir.empty()) return OkStatus();
  furthest_.emplace(InJobDir(options_.job_dir, dir), config_.name(), clock_);
  if (!leader()) return OkStatus();
  checkpoints_.emplace(config_, options_, mode_, runner_->host());
  if (options_.kept != nullptr) return OkStatus();
  TD_ASSIGN_OR_RETURN(
      SessionCheckpoints::Resumed resumed,
      checkpoints_->Resume(steps_per_epoch(), runner_->scope(), [this](const std::string& warning) {
        options_.sink("warning: " + warning + "\n");
      }));
  if (!resumed.changes.empty()) {
    options_.sink(absl::StrFormat("warning: settings changed after the checkpoint of step %d: %s\n",
                                  resumed.step, resumed.changes));
  }
  first_step_ = resumed.step;
  restored_state_ = std::move(resumed.state);
  return OkStatus();
}

Status Session::Impl::Open() {
  TD_REQUIRE(!speed_test() || config_.checkpoint().dir().empty());  // CheckJob rejects such jobs
  TD_ASSIGN_OR_RETURN(runner_, StepRunner::Make(config_, options_, mode_, clock_));
  steps_total_ = runner_->steps_total();
  if (options_.kept != nullptr) TD_RETURN_IF_ERROR(TakeUp(*options_.kept, runner_->scope()));
  return LoadCheckpoint();
}

Status Session::Impl::StartMode() {
  const ElasticState* kept = options_.kept.get();
  TD_ASSIGN_OR_RETURN(
      const int64_t next,
      mode_.membership->Join(program(), runner_->scope(), std::exchange(restored_state_, {}),
                             kept != nullptr ? kept->step : first_step_, told_));
  first_step_ = next;
  if (options_.stream != nullptr) {
    TD_RETURN_IF_ERROR(options_.stream->Begin(config_.name(), static_cast<uint64_t>(next)));
  }
  if (kept != nullptr) {
    first_step_ = std::min(kept->done.first_step, next);
    history_ = kept->done.history;
    train_seconds_ = kept->done.train_seconds;
  }
  steps_done_ = next - first_step_;
  if (CountsRepeats()) done_before_ = furthest_->Read();
  OpenProgress();
  if (options_.board != nullptr) {
    options_.board->Begin(
        StatusJobOf(config_, options_, program(), runner_->metric_name(), next, steps_known()));
  }
  if (leader()) {
    Tell(graph::ReportText(runner_->programs().passes) +
         PlanReport(config_.strategy(), runner_->plan()) + runner_->TakeNotes());
    if (speed_test()) {
      Tell(
          "reader_queue_speed_test_mode: every step uses the first batch, so the job does not "
          "train, and loss and metric have no meaning");
    }
  }
  const Time begin = kept != nullptr ? kept->done.until : begin_;
  if (!options_.message.empty()) {
    progress_->Message(absl::StrFormat("%s; continuing with step %d after %.2f s", options_.message,
                                       DisplayStep(next), Seconds(clock_.Now() - begin)));
  } else if (next > 0) {
    const std::string of = steps_known() == 0 ? "" : absl::StrFormat(" of %d", steps_known());
    progress_->Message(absl::StrFormat("resumed at step %d%s", next, of));
  }
  return OkStatus();
}

Status Session::Impl::TrainRun(int64_t first, int64_t steps) {
  const int64_t last = first + steps - 1;
  reports_ = progress_->Due(last, steps) && !program().loss.empty();
  const bool in_window = window_.enabled() && !program().loss.empty() && !speed_test();
  TD_ASSIGN_OR_RETURN(ran_, runner_->RunSteps({first, steps, steps_done_, reports_ || in_window}));
  if (in_window && window_.Add(ran_.loss, ran_.metric)) {
    TD_ASSIGN_OR_RETURN(TrainingWindow::Counts counts, runner_->MetricCounts());
    window_.EndPart(std::move(counts));
  }
  train_seconds_ += ran_.seconds;
  history_.Add(
      {last, steps, ran_.seconds, reports_ ? ran_.loss : std::numeric_limits<double>::quiet_NaN()});
  if (leader() && furthest_) furthest_->Note(last + 1);
  const int64_t repeated = std::clamp<int64_t>(done_before_ - first, 0, steps);
  repeated_ += repeated;
  if (options_.board != nullptr) {
    options_.board->Steps({.last = last,
                           .steps = steps,
                           .seconds = ran_.seconds,
                           .waited_by_rank = mode_.membership->WaitedSeconds(),
                           .data_wait_seconds = runner_->reader().stats().wait_seconds,
                           .batches_ready = runner_->reader().queue_size(),
                           .comm = runner_->executor().comm_times(),
                           .repeated = repeated,
                           .stream = StreamReportOf(options_.stream, last, window_)});
  }
  return CheckParams(last, steps);
}

// Computes the checksum of the parameters if it is due after the run of `steps` steps that ended
// with `step`, and compares it with those of the other ranks.
Status Session::Impl::CheckParams(int64_t step, int64_t steps) {
  checksum_.reset();
  if (!ParamChecksumDue(config_.param_checksums(), step, steps, step + 1 == steps_total_)) {
    return OkStatus();
  }
  // The step is complete. If a peer is lost during the comparison, the job continues after the
  // step.
  if (runner_->point() != nullptr) TD_RETURN_IF_ERROR(runner_->point()->BeforeStep(step + 1));
  TD_ASSIGN_OR_RETURN(checksum_, ParamChecksum(program(), runner_->scope()));
  TD_ASSIGN_OR_RETURN(const std::vector<int64_t> all, mode_.membership->ValuesOfRanks(*checksum_));
  return Annotate(CompareParamChecksums(all), absl::StrFormat("step %d", DisplayStep(step)));
}

void Session::Impl::Report(int64_t step, int64_t steps) {
  progress_->Report({.step = step,
                     .steps = steps,
                     .epoch = step / steps_per_epoch(),
                     .samples = options_.global_batch,
                     .loss = ran_.loss,
                     .metric_name = runner_->metric_name(),
                     .metric = ran_.metric,
                     .data_wait_seconds = runner_->reader().stats().wait_seconds,
                     .waited_by_rank = mode_.membership->WaitedSeconds(),
                     .stream = StreamReportOf(options_.stream, step, window_),
                     .params_checksum = checksum_});
  if (options_.board != nullptr) {
    options_.board->Loss(step, ran_.loss, ran_.metric, runner_->learning_rate(step));
  }
}

Status Session::Impl::AfterWatched(bool last) {
  TD_ASSIGN_OR_RETURN(const std::string text, runner_->AfterWatched(steps_done_, last));
  Tell(text);
  return OkStatus();
}

void Session::Impl::Tell(const std::string& lines) {
  for (const auto line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    progress_->Message(std::string(line));
  }
}

Status Session::Impl::AfterRun(int64_t step, int64_t steps, bool stopping) {
  Tell(runner_->executor().TakeNews() +
       (leader() ? mode_.steps->TakeMessage(step) : std::string()));
  if (reports_) Report(step, steps);
  return AfterStep(step, stopping);
}

// Evaluates and writes a checkpoint if an evaluation or a checkpoint is due after `step`.
Status Session::Impl::AfterStep(int64_t step, bool stopping) {
  if (speed_test()) return OkStatus();
  const int64_t epoch = step / steps_per_epoch();
  const bool last = step + 1 == steps_total_;
  const int64_t every = config_.eval_every_epochs();
  if (runner_->evaluates() &&
      (last || (ends_epoch(step) && every > 0 && (epoch + 1) % every == 0))) {
    TD_RETURN_IF_ERROR(Evaluate(epoch));
  }
  return SavesAfter(step) || last || stopping ? Save(step) : OkStatus();
}

// Returns whether a checkpoint is due after `step`, even if the job continues.
bool Session::Impl::SavesAfter(int64_t step) const {
  const int64_t save_every = config_.checkpoint().every_steps();
  return save_every > 0 ? (step + 1) % save_every == 0 : ends_epoch(step);
}

// Writes a checkpoint of `step`, if the job has a checkpoint directory.
Status Session::Impl::Save(int64_t step) {
  if (config_.checkpoint().dir().empty()) return OkStatus();
  if (leader()) {
    return checkpoints_->Save(
        step + 1, steps_per_epoch(), program(), runner_->scope(),
        [this](const std::string& warning) { progress_->Message("warning: " + warning); });
  }
  return SendStateToRank0(mode_, program(), runner_->scope(), runner_->host());
}

Status Session::Impl::Evaluate(int64_t epoch) {
  TD_ASSIGN_OR_RETURN(const std::optional<Evaluation> evaluation, runner_->Evaluate());
  if (!evaluation) return OkStatus();
  evaluation_ = *evaluation;
  Tell(runner_->TakeNotes());
  if (!leader()) return OkStatus();
  std::vector<NamedValue> values = {{"loss", evaluation_.loss}};
  if (!runner_->metric_name().empty()) {
    values.push_back({runner_->metric_name(), evaluation_.metric});
  }
  for (const auto& [name, value] : evaluation_.scores.Values()) values.push_back({name, value});
  progress_->Result("eval", epoch, values);
  if (const std::string text = evaluation_.scores.Confusion(); !text.empty()) {
    progress_->Message(text);
  }
  if (options_.board == nullptr) return OkStatus();
  const int64_t step = first_step_ + steps_done_;
  options_.board->Evaluation(step, evaluation_.loss, evaluation_.metric);
  if (options_.board->wants_parameters()) {
    TD_ASSIGN_OR_RETURN(const TensorMap params,
                        ParamsOf(program(), runner_->scope(), runner_->host()));
    options_.board->Parameters(step, params);
  }
  return OkStatus();
}

Status Session::Impl::TrainLoop() {
  TD_RETURN_IF_ERROR(StartMode());
  int64_t next = first_step_ + steps_done_;
  // Repeats the work after the previous step, because the predecessor of this process may have died
  // before this work. Mode hybrid does not repeat this work, because the tables may already be one
  // step ahead.
  const bool ahead = config_.mode() == HYBRID && next < steps_total_;
  const bool in_midst = options_.rank.restarted || options_.kept != nullptr;
  if (in_midst && leader() && next > 0 && !ahead) TD_RETURN_IF_ERROR(AfterStep(next - 1, false));
  while (true) {
    Status status = TrainFrom(&next);
    if (status.ok() || runner_->point() == nullptr || stop_.load()) return status;
    const Time since = clock_.Now();
    const Status recovered = Recover(status, &next);
    if (!recovered.ok() && superseded()) {
      TD_ASSIGN_OR_RETURN(kept_, KeepState(program(), runner_->scope(), *runner_->point(),
                                           {first_step_, history_, train_seconds_, since}));
    }
    TD_RETURN_IF_ERROR(recovered);
  }
}

// Recovers from an aborted run. Sets `*next` to the step with which all ranks continue.
Status Session::Impl::Recover(const Status& why, int64_t* next) {
  const Time begin = clock_.Now();
  TD_ASSIGN_OR_RETURN(const int64_t step,
                      mode_.membership->Recover(why, program(), *runner_->point(), told_));
  progress_->Message(absl::StrFormat(
      "%s; all %d ranks have joined again after %.1f s; continuing with step %d", ToString(why),
      options_.rank.size, Seconds(clock_.Now() - begin), DisplayStep(step)));
  const bool ended_by_peers = step > *next;
  *next = step;
  steps_done_ = step - first_step_;
  return ended_by_peers && leader() ? AfterStep(step - 1, false) : OkStatus();
}

// Trains from step `*from` to the end of the job. Sets `*from` to the first step that is not done.
Status Session::Impl::TrainFrom(int64_t* from) {
  int64_t& next = *from;
  TD_RETURN_IF_ERROR(runner_->Reset(next));
  if (window_.enabled()) {
    TD_ASSIGN_OR_RETURN(TrainingWindow::Counts counts, runner_->MetricCounts());
    window_.Begin(std::move(counts));
  }
  // A request to stop reaches all ranks at about the same time, but not at the same step. If the
  // ranks do not agree on a common last step, rank 0 stops after its current run and saves its
  // state. Rank 0 may be up to two runs ahead when it stops, so each other rank executes up to two
  // further runs.
  int runs_left = leader() || mode_.state->state_is_spread() ? 0 : 2;
  while (next < steps_total_) {
    if (superseded()) {
      TD_RETURN_IF_ERROR(runner_->point()->BeforeStep(next));
      return Aborted("the step was stopped, because ranks join or leave the job");
    }
    TD_RETURN_IF_ERROR(AwaitRecords(next));
    const bool one = runner_->watched() || options_.stream != nullptr;
    const int64_t steps = one ? 1 : RunLengthOf(config_, next, steps_total_, steps_per_epoch());
    const Status status = TrainRun(next, steps);
    if (!status.ok()) return stop_.load() && !leader() ? Stopped(next, false) : status;
    next += steps;
    if (runner_->watched()) TD_RETURN_IF_ERROR(AfterWatched(next == steps_total_));
    steps_done_ += steps;
    if (next == steps_total_) TD_RETURN_IF_ERROR(mode_.membership->EndSteps());
    TD_ASSIGN_OR_RETURN(const bool stopping, mode_.membership->Stopping(stop_.load()));
    TD_RETURN_IF_ERROR(AfterRun(next - 1, steps, stopping));
    if (stopping && runs_left-- == 0) {
      // The job ends when a rank leaves. Therefore no rank may leave before the leader has saved
      // the state.
      if (mode_.state->state_is_spread()) TD_RETURN_IF_ERROR(mode_.membership->Finish());
      return Stopped(next, leader());
    }
  }
  if (steps_done_ == 0 && runner_->evaluates() && !speed_test() && !options_.rank.restarted) {
    TD_RETURN_IF_ERROR(Evaluate(config_.epochs() - 1));
  }
  if (runner_->point() != nullptr) TD_RETURN_IF_ERROR(runner_->point()->BeforeStep(next));
  return mode_.membership->Finish();
}

// Blocks until the records of step `next` exist, if the data is a stream. If a stop is requested
// before, saves the state as after a step, and returns CANCELLED.
Status Session::Impl::AwaitRecords(int64_t next) {
  if (options_.stream == nullptr) return OkStatus();
  // Another rank may be in step `next`, and would fail if this rank left the job. Therefore ranks
  // other than the leader wait longer.
  Time until = Time::max();
  while (!runner_->AwaitData(kStopInterval)) {
    if (!stop_.load()) continue;
    if (until == Time::max()) until = clock_.Now() + (leader() ? Duration::zero() : kStopPatience);
    if (clock_.Now() < until) continue;
    const bool saved = steps_done_ == 0 || SavesAfter(next - 1);
    if (!saved && !speed_test()) TD_RETURN_IF_ERROR(Save(next - 1));
    return Stopped(next, leader());
  }
  return OkStatus();
}

StatusOr<SessionResult> Session::Impl::Result() {
  SessionResult result;
  result.speed_test = speed_test();
  result.metric_name = runner_->metric_name();
  result.metric = evaluation_.metric;
  result.loss = evaluation_.loss;
  result.scores = evaluation_.scores.Values();
  result.steps = steps_done_;
  result.seconds = Seconds(clock_.Now() - begin_);
  const auto samples = static_cast<double>(steps_done_ * options_.global_batch);
  result.samples_per_s = train_seconds_ > 0 ? samples / train_seconds_ : 0;
  result.data_wait_seconds = runner_->reader().stats().wait_seconds;
  result.batches_ready = static_cast<int64_t>(runner_->reader().stats().ready);
  TD_ASSIGN_OR_RETURN(const TensorMap params,
                      mode_.state->Params(program(), runner_->scope(), runner_->host()));
  TD_ASSIGN_OR_RETURN(result.params_sha256, Sha256Params(params));
  result.history = history_;
  result.counts = runner_->Counts(history_);
  if (repeated_ > 0) result.counts.repeated_steps = static_cast<double>(repeated_);
  return result;
}

StatusOr<SessionResult> Session::Impl::Run() {
  begin_ = clock_.Now();
  const Status status = TrainLoop();
  if (progress_ != nullptr) progress_->Finish();
  if (options_.board != nullptr) options_.board->End(status.ok() ? "done" : ToString(status));
  if (!status.ok()) {
    mode_.membership->Abort(status);
    return status;
  }
  return Result();
}

Session::Session() = default;
Session::~Session() = default;

StatusOr<std::unique_ptr<Session>> Session::Make(const JobConfig& config, SessionOptions options,
                                                 TrainingMode mode, const Clock& clock) {
  std::unique_ptr<Session> session(new Session());
  session->impl_ =
      std::make_unique<Impl>(config, std::move(options), std::move(mode), clock, session->stop_);
  TD_RETURN_IF_ERROR(session->impl_->Open());
  return session;
}

StatusOr<SessionResult> Session::Run() { return impl_->Run(); }

std::shared_ptr<const ElasticState> Session::TakeKept() { return impl_->TakeKept(); }

}  // namespace tandem::trainer
