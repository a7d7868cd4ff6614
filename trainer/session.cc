#include "trainer/session.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "kernels/exec/executor.h"
#include "kernels/ops/conv_search.h"
#include "proto/job.pb.h"
#include "trainer/batch_feed.h"
#include "trainer/dropout_place.h"
#include "trainer/evaluator.h"
#include "trainer/job.h"
#include "trainer/job_device.h"
#include "trainer/kept_state.h"
#include "trainer/lr_schedule.h"
#include "trainer/programs.h"
#include "trainer/reader/dataset.h"
#include "trainer/reader/open.h"
#include "trainer/reader/prefetch.h"
#include "trainer/session_checkpoints.h"
#include "trainer/session_parts.h"
#include "trainer/status_board.h"
#include "trainer/step_watch.h"

namespace tandem {

class Session::Impl {
 public:
  Impl(const JobConfig& config, SessionOptions options, ModeDriver& mode, const Clock& clock,
       const std::atomic<bool>& stop)
      : config_(config), options_(std::move(options)), mode_(mode), clock_(clock), stop_(stop) {}
  ~Impl() { mode_.LeaveDevice(); }

  Status Open();
  StatusOr<SessionResult> Run();
  std::shared_ptr<const KeptState> TakeKept() { return std::move(kept_); }

 private:
  Status OpenSamples();
  Status BuildPlan();
  void OpenProgress();
  Status LoadCheckpoint();
  Status StartMode();
  Status TrainLoop();
  Status TrainFrom(int64_t* from);
  Status Recover(const Status& why, int64_t* next);
  bool superseded() const { return options_.superseded && options_.superseded(); }
  static Status Stopped(int64_t steps) {
    return Cancelled("stopped on request after step %d [TD7007]", steps);
  }
  void KeepSearch() {
    if (conv_search_ != nullptr) notes_ += KeepSearched(*conv_search_, &searched_);
  }
  Status Feed(int part);
  Status NextBatch(int64_t step);
  Status TrainRun(int64_t first, int64_t steps);
  Status AddResults(int parts);
  Status AfterWatched(bool last);
  void Tell(const std::string& lines);
  void Report(int64_t step, int64_t steps);
  Status AfterRun(int64_t step, int64_t steps, bool stopping);
  Status AfterStep(int64_t step, bool stopping);
  Status Evaluate(int64_t epoch);
  StatusOr<SessionResult> Result();

  bool speed_test() const {
    return config_.strategy().runtime_flags().reader_queue_speed_test_mode();
  }
  bool leader() const { return options_.rank.rank == 0; }
  bool evaluates() const { return leader() || mode_.evaluates(); }
  ReadShare share() const {
    const int each = mode_.sections();
    return {options_.global_batch, options_.rank.kind_size() / each,
            options_.rank.kind_rank() / each};
  }
  int64_t steps_per_epoch() const { return static_cast<int64_t>(prefetcher_->steps_per_epoch()); }
  bool ends_epoch(int64_t step) const { return (step + 1) % steps_per_epoch() == 0; }

  const JobConfig& config_;
  const SessionOptions options_;
  ModeDriver& mode_;
  const Clock& clock_;
  const std::atomic<bool>& stop_;
  const std::function<bool()> told_ = [this] { return stop_.load() || superseded(); };
  CpuDevice host_;
  std::optional<JobDevice> place_;
  std::unique_ptr<Prefetcher> prefetcher_;
  std::unique_ptr<Scope> scope_;
  JobPrograms programs_;
  std::unique_ptr<CountingComm> comm_;  // nullptr: the mode has no communication
  std::unique_ptr<Plan> plan_;
  std::optional<ReturnPoint> point_;  // where peers that are lost come again
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<BatchFeed> feed_;
  const Batch* data_ = nullptr;  // of the running step
  std::unique_ptr<ConvSearch> conv_search_;
  int64_t searched_ = -1;  // its problems, as kept
  std::string notes_;      // to be told
  StepWatch watch_;
  std::unique_ptr<Evaluator> evaluator_;
  std::optional<LrSchedule> schedule_;
  std::optional<SessionCheckpoints> checkpoints_;  // of the leader, where the job has any
  std::unique_ptr<Progress> progress_;
  TensorMap restored_state_;
  std::shared_ptr<const KeptState> kept_;

  int64_t first_step_ = 0, steps_total_ = 0, steps_done_ = 0;
  int64_t batch_ = 0;                            // samples of a step on this rank
  double train_seconds_ = 0, wait_seconds_ = 0;  // this: for data, in the running run
  RunHistory history_;
  std::string metric_name_;  // "accuracy"; empty: none
  bool reports_ = false;     // whether the run that ended last is reported; asked before it alone
  double loss_ = 0, metric_ = 0;  // of that run, when it is
  Evaluation evaluation_;
  Time begin_;
};

Status Session::Impl::OpenSamples() {
  if (speed_test() && !config_.checkpoint().dir().empty()) {
    return InvalidArgument(
        "reader_queue_speed_test_mode is no training: there is nothing for checkpoint.dir to keep");
  }
  TD_ASSIGN_OR_RETURN(place_, OpenJobDevice(config_, options_.rank));
  scope_ = std::make_unique<Scope>(*place_->device);
  TD_ASSIGN_OR_RETURN(prefetcher_,
                      OpenReader(config_, *options_.train, share(), *place_->batch_memory));
  batch_ = prefetcher_->batch();
  steps_total_ = config_.epochs() * steps_per_epoch();
  if (config_.steps_max() > 0) steps_total_ = std::min(steps_total_, config_.steps_max());
  return OkStatus();
}

Status Session::Impl::BuildPlan() {
  const std::string& drawings = config_.strategy().build_strategy().debug_graphviz_path();
  TD_ASSIGN_OR_RETURN(
      programs_,
      BuildPrograms(config_, options_.job_dir, batch_, options_.global_batch, mode_,
                    leader() ? DrawInto(InJobDir(options_.job_dir, drawings)) : nullptr));
  metric_name_ = MetricName(programs_.forward);
  TD_RETURN_IF_ERROR(SetFirstValues(config_, options_, programs_.train, *scope_, host_, &notes_));
  const int threads = ThreadsOf(config_, options_.rank);
  TD_ASSIGN_OR_RETURN(PlanOptions plan_options, PlanOptionsOf(config_, threads));
  conv_search_ = ConvSearchOf(config_, options_.job_dir, *place_->device, &notes_);
  plan_options.conv_search = conv_search_.get();
  const PlanOptions evaluation = plan_options;
  plan_options.commit = options_.rank.peers_return;
  plan_options.fetch = programs_.train.metrics;
  if (!programs_.train.loss.empty()) plan_options.fetch.push_back(programs_.train.loss);
  if (CommHandler* comm = mode_.comm()) comm_ = std::make_unique<CountingComm>(*comm);
  TD_ASSIGN_OR_RETURN(
      plan_, Plan::Make(programs_.train, place_->backend, *scope_, comm_.get(), plan_options));
  if (options_.rank.peers_return) {
    TD_ASSIGN_OR_RETURN(point_, ReturnPointOf(config_, programs_.train, *scope_, host_));
  }
  KeepSearch();
  executor_ = std::make_unique<Executor>(*plan_);
  TD_ASSIGN_OR_RETURN(feed_,
                      BatchFeed::Make(config_, *plan_, *options_.train, *prefetcher_, *place_));
  if (evaluates()) {
    evaluator_ = std::make_unique<Evaluator>(
        programs_.forward, place_->backend, *scope_, options_.test, evaluation,
        mode_.evaluation_comm(), PlacesOf(config_),
        [this](const Program& bound) { return mode_.Evaluated(bound); });
  }
  const std::string& profiles = config_.profile().dir();
  TD_ASSIGN_OR_RETURN(watch_, StepWatch::Make(config_,
                                              {.dir = InJobDir(options_.job_dir, profiles),
                                               .job = config_.name(),
                                               .rank = options_.rank.rank,
                                               .threads = threads,
                                               .calls = mode_.rpc_log()},
                                              *plan_, place_->backend));
  return OkStatus();
}

void Session::Impl::OpenProgress() {
  ProgressOptions progress = options_.progress;
  progress.worker_index = options_.rank.rank;
  progress.steps_total = steps_total_;
  progress.first_step = first_step_ + steps_done_;
  progress.log_every_steps = config_.log_every_steps();
  progress_ = std::make_unique<Progress>(progress, options_.sink, clock_);
}

Status Session::Impl::LoadCheckpoint() {
  if (config_.checkpoint().dir().empty() || !leader()) return OkStatus();
  checkpoints_.emplace(config_, options_, mode_, host_);
  if (options_.kept != nullptr) return OkStatus();
  TD_ASSIGN_OR_RETURN(SessionCheckpoints::Resumed resumed,
                      checkpoints_->Resume(*scope_, [this](const std::string& warning) {
                        options_.sink("warning: " + warning + "\n");
                      }));
  first_step_ = resumed.step;
  restored_state_ = std::move(resumed.state);
  return OkStatus();
}

Status Session::Impl::Open() {
  TD_RETURN_IF_ERROR(OpenSamples());
  TD_ASSIGN_OR_RETURN(schedule_,
                      LrSchedule::Make(config_.optimizer().schedule(),
                                       config_.optimizer().learning_rate(), steps_total_));
  TD_RETURN_IF_ERROR(BuildPlan());
  if (options_.kept != nullptr) TD_RETURN_IF_ERROR(TakeUp(*options_.kept, *scope_));
  return LoadCheckpoint();
}

Status Session::Impl::StartMode() {
  const KeptState* kept = options_.kept.get();
  TD_ASSIGN_OR_RETURN(const int64_t next,
                      mode_.Start(programs_.train, *scope_, std::exchange(restored_state_, {}),
                                  kept != nullptr ? kept->step : first_step_, told_));
  first_step_ = next;
  if (kept != nullptr) {
    first_step_ = std::min(kept->done.first_step, next);
    history_ = kept->done.history;
    train_seconds_ = kept->done.train_seconds;
  }
  steps_done_ = next - first_step_;
  OpenProgress();
  if (options_.board != nullptr) {
    options_.board->Begin(
        StatusJobOf(config_, options_, programs_.train, metric_name_, next, steps_total_));
  }
  if (leader()) {
    Tell(ReportText(programs_.passes) + PlanReport(config_.strategy(), *plan_) +
         std::exchange(notes_, ""));
    if (speed_test())
      Tell(
          "reader_queue_speed_test_mode: every step gets the first batch again; this is no "
          "training, and loss and metric mean nothing");
  }
  const Time begin = kept != nullptr ? kept->done.until : begin_;
  if (!options_.news.empty())
    progress_->Message(absl::StrFormat("%s; step %d is next, after %.2f s", options_.news, next,
                                       Seconds(clock_.Now() - begin)));
  else if (next > 0)
    progress_->Message(absl::StrFormat("resumed at step %d of %d", next, steps_total_));
  return OkStatus();
}

Status Session::Impl::Feed(int part) {
  const Time begin = clock_.Now();
  TD_RETURN_IF_ERROR(feed_->Bring(part));
  if (watch_.profiler())
    watch_.profiler()->Add("feed", executor_->steps_run(), begin, clock_.Now());
  return OkStatus();
}

Status Session::Impl::NextBatch(int64_t step) {
  if (point_) TD_RETURN_IF_ERROR(point_->BeforeStep(step));
  const Time begin = clock_.Now();
  TD_ASSIGN_OR_RETURN(data_, feed_->Next(begin + std::chrono::minutes(10)));
  if (data_ == nullptr) return Internal("the data ended at step %d of %d", step, steps_total_);
  const Time end = clock_.Now();
  wait_seconds_ += Seconds(end - begin);
  if (watch_.profiler())
    watch_.profiler()->Add("wait for data", executor_->steps_run(), begin, end);
  TD_RETURN_IF_ERROR(SetScalar(*scope_, kStepWeightVar, static_cast<float>(data_->weight)));
  return mode_.BeginStep(step, schedule_->At(step));
}

// One run of `steps` steps. Loss and metric are those of the last one.
Status Session::Impl::TrainRun(int64_t first, int64_t steps) {
  watch_.Observe(steps_done_, *executor_);
  const int parts = config_.strategy().batch_merge_repeats();
  const int64_t last = first + steps - 1;
  reports_ = progress_->Due(last, steps) && !programs_.train.loss.empty();
  int64_t step = first;
  const auto before = [&](int iteration) -> Status {
    const int part = iteration % parts;
    step = first + iteration / parts;
    if (part == 0) TD_RETURN_IF_ERROR(NextBatch(step));
    if (part > 0 && reports_ && step == last) TD_RETURN_IF_ERROR(AddResults(parts));
    TD_RETURN_IF_ERROR(Feed(part));
    if (mode_.looks_ahead()) mode_.Foresee(feed_->LookAhead());
    return PlaceDropout(*scope_, share(),
                        {config_.seed(), step, part, parts, mode_.micro_batches()});
  };
  loss_ = metric_ = wait_seconds_ = 0;
  const Time begin = clock_.Now();
  const Status status = executor_->Run(static_cast<int>(steps) * parts, before);
  if (!status.ok()) return Annotate(status, absl::StrFormat("step %d", step));
  if (reports_) TD_RETURN_IF_ERROR(AddResults(parts));
  const double seconds = Seconds(clock_.Now() - begin) - wait_seconds_;
  train_seconds_ += seconds;
  history_.Add({last, steps, seconds, reports_ ? loss_ : std::numeric_limits<double>::quiet_NaN()});
  if (options_.board)
    options_.board->Steps({last, steps, seconds, mode_.WaitedSeconds(),
                           prefetcher_->stats().wait_seconds, prefetcher_->queue_size(),
                           executor_->comm_times()});
  return OkStatus();
}

// Loss and metric of a step are the means over the parts of its batch.
Status Session::Impl::AddResults(int parts) {
  const Program& program = programs_.train;
  TD_ASSIGN_OR_RETURN(const double loss, ReadScalar(*scope_, *plan_, program.loss));
  loss_ += loss / parts;
  if (program.metrics.empty()) return OkStatus();
  TD_ASSIGN_OR_RETURN(const double metric, ReadScalar(*scope_, *plan_, program.metrics[0]));
  metric_ += metric / parts;
  return OkStatus();
}

void Session::Impl::Report(int64_t step, int64_t steps) {
  progress_->Report({.step = step,
                     .steps = steps,
                     .epoch = step / steps_per_epoch(),
                     .samples = options_.global_batch,
                     .loss = loss_,
                     .metric_name = metric_name_,
                     .metric = metric_,
                     .data_wait_seconds = prefetcher_->stats().wait_seconds,
                     .waited_by_rank = mode_.WaitedSeconds()});
  if (options_.board != nullptr) options_.board->Loss(step, loss_, metric_, schedule_->At(step));
}

Status Session::Impl::AfterWatched(bool last) {
  TD_ASSIGN_OR_RETURN(const std::string text, watch_.After(steps_done_, last));
  Tell(text);
  return OkStatus();
}

void Session::Impl::Tell(const std::string& lines) {
  for (const auto line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    progress_->Message(std::string(line));
  }
}

Status Session::Impl::AfterRun(int64_t step, int64_t steps, bool stopping) {
  Tell(executor_->TakeNews() + (leader() ? mode_.News(step) : std::string()));
  if (reports_) Report(step, steps);
  return AfterStep(step, stopping);
}

// Evaluation and checkpoint, where they are due behind `step`.
Status Session::Impl::AfterStep(int64_t step, bool stopping) {
  if (speed_test()) return OkStatus();
  const int64_t epoch = step / steps_per_epoch();
  const bool last = step + 1 == steps_total_;
  const int64_t every = config_.eval_every_epochs();
  if (evaluates() && (last || (ends_epoch(step) && every > 0 && (epoch + 1) % every == 0))) {
    TD_RETURN_IF_ERROR(Evaluate(epoch));
  }
  const int64_t save_every = config_.checkpoint().every_steps();
  const bool due = save_every > 0 ? (step + 1) % save_every == 0 : ends_epoch(step);
  if (config_.checkpoint().dir().empty() || !(due || last || stopping)) return OkStatus();
  if (leader()) {
    return checkpoints_->Save(
        step + 1, steps_per_epoch(), programs_.train, *scope_,
        [this](const std::string& warning) { progress_->Message("warning: " + warning); });
  }
  return GiveState(mode_, programs_.train, *scope_, host_);
}

Status Session::Impl::Evaluate(int64_t epoch) {
  plan_->DropTemporaries();  // the evaluator has its own
  TD_RETURN_IF_ERROR(mode_.Gather());
  TD_ASSIGN_OR_RETURN(const int64_t batches, mode_.Tell(leader() ? evaluator_->batches() : 0));
  if (!leader() && mode_.serves()) return evaluator_->Serve(batches);
  TD_ASSIGN_OR_RETURN(evaluation_, evaluator_->Run());
  KeepSearch();
  Tell(std::exchange(notes_, ""));
  if (!leader()) return OkStatus();
  std::vector<NamedValue> values = {{"loss", evaluation_.loss}};
  if (!metric_name_.empty()) values.push_back({metric_name_, evaluation_.metric});
  progress_->Result("eval", epoch, values);
  if (options_.board == nullptr) return OkStatus();
  const int64_t step = first_step_ + steps_done_;
  options_.board->Evaluation(step, evaluation_.loss, evaluation_.metric);
  if (options_.board->wants_parameters()) {
    TD_ASSIGN_OR_RETURN(const TensorMap params, ParamsOf(programs_.train, *scope_, host_));
    options_.board->Parameters(step, params);
  }
  return OkStatus();
}

Status Session::Impl::TrainLoop() {
  TD_RETURN_IF_ERROR(StartMode());
  int64_t next = first_step_ + steps_done_;
  // Its predecessor may not have come to it. Tables of mode hybrid may be ahead: by step `next`.
  const bool ahead = config_.mode() == HYBRID && next < steps_total_;
  const bool in_midst = options_.rank.restarted || options_.kept != nullptr;
  if (in_midst && leader() && next > 0 && !ahead) TD_RETURN_IF_ERROR(AfterStep(next - 1, false));
  while (true) {
    const Status status = TrainFrom(&next);
    if (status.ok() || !point_ || stop_.load()) return status;
    const Time since = clock_.Now();
    const Status recovered = Recover(status, &next);
    if (!recovered.ok() && superseded()) {
      TD_ASSIGN_OR_RETURN(kept_, KeepState(programs_.train, *scope_, *point_,
                                           {first_step_, history_, train_seconds_, since}));
    }
    TD_RETURN_IF_ERROR(recovered);
  }
}

// A run that was broken off is made good: everybody goes on from one step.
Status Session::Impl::Recover(const Status& why, int64_t* next) {
  const Time begin = clock_.Now();
  TD_ASSIGN_OR_RETURN(const int64_t step, mode_.Recover(why, programs_.train, *point_, told_));
  progress_->Message(
      absl::StrFormat("%s; all %d ranks are there again after %.1f s, step %d is next",
                      ToString(why), options_.rank.size, Seconds(clock_.Now() - begin), step));
  const bool ended_by_peers = step > *next;
  *next = step;
  steps_done_ = step - first_step_;
  return ended_by_peers && leader() ? AfterStep(step - 1, false) : OkStatus();
}

// From step `*from` on, which moves along, to the end.
Status Session::Impl::TrainFrom(int64_t* from) {
  int64_t& next = *from;
  TD_RETURN_IF_ERROR(feed_->Reset({.epoch = static_cast<uint64_t>(next / steps_per_epoch()),
                                   .step = static_cast<uint64_t>(next % steps_per_epoch()),
                                   .epoch_end = static_cast<uint64_t>(config_.epochs())}));
  // A request to stop reaches all ranks at about the same time, but not at the same step. Unless
  // they agree on one, rank 0 stops first, behind a whole run, and saves it; the others go on
  // until it has: its last run is at most two after theirs.
  int runs_left = leader() || mode_.state_is_spread() ? 0 : 2;
  while (next < steps_total_) {
    if (superseded()) {
      TD_RETURN_IF_ERROR(point_->BeforeStep(next));
      return Aborted("the ranks of the job change");
    }
    const int64_t steps =
        watch_.each_step() ? 1 : RunLengthOf(config_, next, steps_total_, steps_per_epoch());
    const Status status = TrainRun(next, steps);
    if (!status.ok()) return stop_.load() && !leader() ? Stopped(next) : status;
    next += steps;
    if (watch_.each_step()) TD_RETURN_IF_ERROR(AfterWatched(next == steps_total_));
    steps_done_ += steps;
    TD_ASSIGN_OR_RETURN(const bool stopping, mode_.Stopping(stop_.load()));
    TD_RETURN_IF_ERROR(AfterRun(next - 1, steps, stopping));
    if (stopping && runs_left-- == 0) {
      // Who leaves ends the job: not before the leader has saved.
      if (mode_.state_is_spread()) TD_RETURN_IF_ERROR(mode_.Finish());
      return Stopped(next);
    }
  }
  if (steps_done_ == 0 && evaluates() && !speed_test() && !options_.rank.restarted)
    TD_RETURN_IF_ERROR(Evaluate(config_.epochs() - 1));
  if (point_) TD_RETURN_IF_ERROR(point_->BeforeStep(next));
  return mode_.Finish();
}

StatusOr<SessionResult> Session::Impl::Result() {
  SessionResult result;
  result.speed_test = speed_test();
  result.metric_name = metric_name_;
  result.metric = evaluation_.metric;
  result.loss = evaluation_.loss;
  result.steps = steps_done_;
  result.seconds = Seconds(clock_.Now() - begin_);
  const auto samples = static_cast<double>(steps_done_ * options_.global_batch);
  result.samples_per_s = train_seconds_ > 0 ? samples / train_seconds_ : 0;
  result.data_wait_seconds = prefetcher_->stats().wait_seconds;
  result.batches_ready = static_cast<int64_t>(prefetcher_->stats().ready);
  TD_ASSIGN_OR_RETURN(const TensorMap params, mode_.Params(programs_.train, *scope_, host_));
  TD_ASSIGN_OR_RETURN(result.params_sha256, Sha256Params(params));
  result.history = history_;
  result.counts = CountsOf({programs_, *plan_, *executor_, *scope_, history_, comm_.get(), mode_,
                            feed_->bytes(), place_->backend,
                            config_.strategy().runtime_flags().enable_cublas_tensor_op_math()});
  return result;
}

StatusOr<SessionResult> Session::Impl::Run() {
  begin_ = clock_.Now();
  const Status status = TrainLoop();
  if (progress_ != nullptr) progress_->Finish();
  if (options_.board != nullptr) options_.board->End(status.ok() ? "done" : ToString(status));
  if (!status.ok()) {
    mode_.Abort(status);
    return status;
  }
  return Result();
}

Session::Session() = default;
Session::~Session() = default;

StatusOr<std::unique_ptr<Session>> Session::Make(const JobConfig& config, SessionOptions options,
                                                 ModeDriver& mode, const Clock& clock) {
  std::unique_ptr<Session> session(new Session());
  session->impl_ = std::make_unique<Impl>(config, std::move(options), mode, clock, session->stop_);
  TD_RETURN_IF_ERROR(session->impl_->Open());
  return session;
}

StatusOr<SessionResult> Session::Run() { return impl_->Run(); }

std::shared_ptr<const KeptState> Session::TakeKept() { return impl_->TakeKept(); }

}  // namespace tandem
