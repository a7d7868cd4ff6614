#include "trainer/session/step_runner.h"

#include <algorithm>

#include "common/base/require.h"
#include "common/base/step_number.h"
#include "kernels/graph/distribute/distribute.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"
#include "trainer/modes/state/scope_state.h"
#include "trainer/reader/input/dataset.h"
#include "trainer/reader/open_stream.h"
#include "trainer/reader/stream/stream_dataset.h"
#include "trainer/session/count_run.h"
#include "trainer/session/dropout_offset.h"
#include "trainer/session/first_values.h"
#include "trainer/session/plan_options.h"

namespace tandem::trainer {
namespace {

// Makes the rollback point, to which a failed step returns. Errors: those of StepRollback::Make.
StatusOr<StepRollback> ReturnPointOf(const JobConfig& config, const graph::Program& program,
                                     exec::Scope& scope, Device& host) {
  const DistributedStrategy& strategy = config.strategy();
  const int64_t period =
      strategy.gradient_merge() ? strategy.gradient_merge_configs().k_steps() : 1;
  return StepRollback::Make(program, scope, period, period * strategy.batch_merge_repeats(), host);
}

}  // namespace

StatusOr<std::unique_ptr<StepRunner>> StepRunner::Make(const JobConfig& config,
                                                       const SessionOptions& options,
                                                       const TrainingMode& mode,
                                                       const Clock& clock) {
  std::unique_ptr<StepRunner> runner(new StepRunner(config, options, mode, clock));
  TD_RETURN_IF_ERROR(runner->OpenData());
  TD_ASSIGN_OR_RETURN(
      runner->schedule_,
      LrSchedule::Make(config.optimizer().schedule(), config.optimizer().learning_rate(),
                       runner->steps_total_ == kEndless ? 0 : runner->steps_total_));
  TD_RETURN_IF_ERROR(runner->BuildPlan());
  return runner;
}

reader::ReadShare StepRunner::share() const {
  const int each = mode_.sections;
  TD_REQUIRE(each > 0);
  return {options_.global_batch, options_.rank.kind_size() / each,
          options_.rank.kind_rank() / each};
}

Status StepRunner::OpenData() {
  TD_ASSIGN_OR_RETURN(place_, OpenJobDevice(config_, options_.rank));
  scope_ = std::make_unique<exec::Scope>(*place_->device);
  TD_ASSIGN_OR_RETURN(reader_,
                      reader::OpenReader(config_, *options_.train, share(), *place_->batch_memory));
  batch_ = reader_->batch();
  steps_total_ = options_.stream != nullptr ? kEndless : config_.epochs() * steps_per_epoch();
  if (config_.steps_max() > 0) steps_total_ = std::min(steps_total_, config_.steps_max());
  return OkStatus();
}

Status StepRunner::BuildPlan() {
  const std::string& drawings = config_.strategy().build_strategy().debug_graphviz_path();
  TD_ASSIGN_OR_RETURN(
      programs_,
      BuildPrograms(config_, options_.job_dir, batch_, options_.global_batch, mode_,
                    leader() ? DrawInto(InJobDir(options_.job_dir, drawings)) : nullptr));
  metric_name_ = MetricName(programs_.forward);
  TD_RETURN_IF_ERROR(SetFirstValues(config_, options_, programs_.train, *scope_, host_, &notes_));
  const int threads = ThreadsOf(config_, options_.rank);
  TD_ASSIGN_OR_RETURN(exec::PlanOptions plan_options, PlanOptionsOf(config_, threads));
  conv_search_ = ConvSearchOf(config_, options_.job_dir, place_->device->place(), &notes_);
  plan_options.settings.conv.search = conv_search_.get();
  code_ = std::make_unique<ops::CodeCache>(
      InJobDir(options_.job_dir, config_.strategy().compilation_cache_dir()));
  plan_options.code = code_.get();
  const exec::PlanOptions evaluation = plan_options;
  plan_options.commit = options_.rank.peers_return;
  plan_options.fetch = programs_.train.metrics;
  if (!programs_.train.loss.empty()) plan_options.fetch.push_back(programs_.train.loss);
  if (mode_.training != nullptr) comm_ = std::make_unique<CountingComm>(*mode_.training);
  TD_ASSIGN_OR_RETURN(plan_, exec::Plan::Make(programs_.train, place_->backend, *scope_,
                                              comm_.get(), plan_options));
  notes_ += plan_->notes();
  if (options_.rank.peers_return) {
    TD_ASSIGN_OR_RETURN(point_, ReturnPointOf(config_, programs_.train, *scope_, host_));
  }
  NoteKernels();
  executor_ = std::make_unique<exec::Executor>(*plan_);
  TD_ASSIGN_OR_RETURN(feed_, BatchFeed::Make(config_, *plan_, *options_.train, *reader_, *place_));
  const bool tests = options_.stream == nullptr || reader::NamesTestFiles(config_.data());
  if (mode_.evaluation_part != EvaluationPart::kNone && tests) {
    Evaluator::Part part;
    if (mode_.evaluation_part == EvaluationPart::kSection) {
      part = [this](const graph::Program& bound) { return mode_.programs->EvaluatedPart(bound); };
    }
    evaluator_ = std::make_unique<Evaluator>(
        programs_.forward, place_->backend, *scope_, options_.test, evaluation, mode_.evaluation,
        PlacesOf(config_), part, config_.data().format() == "table");
  }
  const std::string& profiles = config_.profile().dir();
  TD_ASSIGN_OR_RETURN(watch_,
                      StepInstrumentation::Make(config_,
                                                {.dir = InJobDir(options_.job_dir, profiles),
                                                 .job = config_.name(),
                                                 .rank = options_.rank.rank,
                                                 .threads = threads,
                                                 .calls = mode_.calls},
                                                {*plan_, place_->backend, *scope_, plan_options}));
  notes_ += watch_.note();
  return OkStatus();
}

void StepRunner::NoteKernels() {
  if (conv_search_ != nullptr) notes_ += SaveSearched(*conv_search_, &searched_);
  notes_ += code_->TakeNotes();
}

Status StepRunner::Reset(int64_t step) {
  const int64_t epoch_end = options_.stream != nullptr ? kEndless : config_.epochs();
  return feed_->Reset({.epoch = static_cast<uint64_t>(step / steps_per_epoch()),
                       .step = static_cast<uint64_t>(step % steps_per_epoch()),
                       .epoch_end = static_cast<uint64_t>(epoch_end)});
}

Status StepRunner::Feed(int part) {
  const Time begin = clock_.Now();
  TD_RETURN_IF_ERROR(feed_->Bring(part));
  if (watch_.profiler() != nullptr) {
    watch_.profiler()->Add("feed", executor_->steps_run(), begin, clock_.Now());
  }
  return OkStatus();
}

Status StepRunner::NextBatch(int64_t step) {
  if (point_) TD_RETURN_IF_ERROR(point_->BeforeStep(step));
  const Time begin = clock_.Now();
  TD_ASSIGN_OR_RETURN(const reader::Batch* const data,
                      feed_->Next(begin + std::chrono::minutes(10)));
  if (data == nullptr) {
    return Internal("the training data ended at step %d of %d", DisplayStep(step), steps_total_);
  }
  const Time end = clock_.Now();
  wait_seconds_ += Seconds(end - begin);
  if (watch_.profiler() != nullptr) {
    watch_.profiler()->Add("wait for data", executor_->steps_run(), begin, end);
  }
  TD_RETURN_IF_ERROR(SetScalar(*scope_, graph::kStepWeightVar, static_cast<float>(data->weight)));
  if (options_.stream != nullptr) {
    mode_.steps->SetEventTime(options_.stream->newest_time_ms(static_cast<uint64_t>(step)));
  }
  return mode_.steps->BeginStep(step, schedule_->At(step));
}

StatusOr<StepRunner::Ran> StepRunner::RunSteps(const Run& run) {
  TD_REQUIRE(run.steps > 0 && run.first >= 0 && run.first + run.steps <= steps_total_);
  watch_.Observe(run.done, *executor_);
  const int parts = config_.strategy().batch_merge_repeats();
  const int64_t last = run.first + run.steps - 1;
  Ran ran;
  int64_t step = run.first;
  const auto before = [&](int iteration) -> Status {
    const int part = iteration % parts;
    step = run.first + iteration / parts;
    if (part == 0) TD_RETURN_IF_ERROR(NextBatch(step));
    if (part > 0 && run.results && step == last) TD_RETURN_IF_ERROR(AddResults(parts, &ran));
    TD_RETURN_IF_ERROR(Feed(part));
    if (mode_.steps->looks_ahead()) mode_.steps->Foresee(feed_->LookAhead());
    TD_RETURN_IF_ERROR(
        PlaceDropout(*scope_, share(), {config_.seed(), step, part, parts, mode_.micro_batches}));
    watch_.BeforeIteration(step, *executor_);
    return OkStatus();
  };
  wait_seconds_ = 0;
  const Time begin = clock_.Now();
  const Status status = executor_->Run(static_cast<int>(run.steps) * parts, before);
  if (!status.ok()) return Annotate(status, absl::StrFormat("step %d", DisplayStep(step)));
  if (run.results) TD_RETURN_IF_ERROR(AddResults(parts, &ran));
  ran.seconds = Seconds(clock_.Now() - begin) - wait_seconds_;
  return ran;
}

// Adds the results of one of the `parts` parts of a batch to `ran`. The loss and metric of a step
// are the means over its parts.
Status StepRunner::AddResults(int parts, Ran* ran) {
  const graph::Program& program = programs_.train;
  TD_ASSIGN_OR_RETURN(const double loss, ReadScalar(*scope_, *plan_, program.loss));
  ran->loss += loss / parts;
  if (program.metrics.empty()) return OkStatus();
  TD_ASSIGN_OR_RETURN(const double metric, ReadScalar(*scope_, *plan_, program.metrics[0]));
  ran->metric += metric / parts;
  return OkStatus();
}

StatusOr<std::vector<int64_t>> StepRunner::MetricCounts() const {
  std::vector<int64_t> counts;
  for (const std::string& name : MetricState(programs_.train)) {
    const Tensor* const tensor = scope_->Find(name);
    if (tensor == nullptr || tensor->dtype() != DType::kI64) continue;
    const size_t before = counts.size();
    counts.resize(before + tensor->bytes() / sizeof(int64_t));
    TD_RETURN_IF_ERROR(
        scope_->device().CopyToHost(&counts[before], tensor->data(), tensor->bytes()));
  }
  return counts;
}

StatusOr<std::optional<Evaluation>> StepRunner::Evaluate() {
  TD_REQUIRE(evaluates());
  plan_->DropTemporaries();  // frees memory for the evaluator, which has its own temporaries
  if (mode_.tables != nullptr) TD_RETURN_IF_ERROR(mode_.tables->Gather());
  TD_ASSIGN_OR_RETURN(const int64_t batches,
                      mode_.membership->ValueOfRank0(leader() ? evaluator_->batches() : 0));
  if (mode_.evaluation_part == EvaluationPart::kServesCommunication) {
    TD_RETURN_IF_ERROR(evaluator_->Serve(batches));
    return std::optional<Evaluation>();
  }
  TD_ASSIGN_OR_RETURN(const Evaluation evaluation, evaluator_->Run());
  NoteKernels();
  return std::optional<Evaluation>(evaluation);
}

RunCounts StepRunner::Counts(const RunHistory& history) const {
  return CountsOf({programs_, *plan_, *executor_, *scope_, history, comm_.get(), mode_,
                   feed_->bytes(), place_->backend,
                   config_.strategy().runtime_flags().enable_cublas_tensor_op_math()});
}

}  // namespace tandem::trainer
