// Runs the steps of one rank: owns the rank's programs, plan, data and evaluator. The session
// decides which steps run, and does all other work between two steps.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "kernels/exec/executor.h"
#include "kernels/ops/conv/conv_search.h"
#include "kernels/ops/cuda/code_cache.h"
#include "trainer/config/job_device.h"
#include "trainer/config/lr_schedule.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/state/step_rollback.h"
#include "trainer/reader/open.h"
#include "trainer/reader/prefetch.h"
#include "trainer/session/batch_feed.h"
#include "trainer/session/counting_comm.h"
#include "trainer/session/evaluation/evaluator.h"
#include "trainer/session/programs.h"
#include "trainer/session/run_counts.h"
#include "trainer/session/run_history.h"
#include "trainer/session/session_options.h"
#include "trainer/session/step_instrumentation.h"

namespace tandem::trainer {

// Number of steps of a job that trains until it is stopped.
constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

// Runs the steps of one rank. Not thread-safe.
class StepRunner {
 public:
  // Consecutive steps that the executor runs in one call.
  struct Run {
    int64_t first = 0, steps = 1;
    int64_t done = 0;      // number of steps of this session before `first`, without undone steps
    bool results = false;  // the caller needs loss and metric
  };
  struct Ran {
    double seconds = 0;           // duration of the run in seconds, without waiting for data
    double loss = 0, metric = 0;  // values of the last step; 0 if no results were requested
  };

  // Opens the device and the data, builds the programs and the plan, and sets the first values of
  // the parameters. All arguments must outlive the runner.
  static StatusOr<std::unique_ptr<StepRunner>> Make(const JobConfig& config,
                                                    const SessionOptions& options,
                                                    const TrainingMode& mode, const Clock& clock);
  // Releases the device resources of the mode, before the runner destroys the device.
  ~StepRunner() { mode_.membership->ReleaseDeviceResources(); }
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  int64_t steps_total() const { return steps_total_; }  // steps of the whole job; may be kEndless
  int64_t steps_per_epoch() const { return static_cast<int64_t>(reader_->steps_per_epoch()); }
  double learning_rate(int64_t step) const { return schedule_->At(step); }
  // Returns the name of the first metric, for example "accuracy"; empty: the program has no metric.
  const std::string& metric_name() const { return metric_name_; }
  const JobPrograms& programs() const { return programs_; }
  const exec::Plan& plan() const { return *plan_; }
  exec::Scope& scope() { return *scope_; }
  CpuDevice& host() { return host_; }
  const reader::Prefetcher& reader() const { return *reader_; }
  exec::Executor& executor() { return *executor_; }
  // Returns the rollback point of the steps. nullptr: there is no such point, because the loss of a
  // peer ends the job.
  StepRollback* point() { return point_ ? &*point_ : nullptr; }
  RunCounts Counts(const RunHistory& history) const;
  // Returns the notes for the user since the last call, one per line.
  std::string TakeNotes() { return std::exchange(notes_, ""); }

  // Makes `step` the next step to run.
  Status Reset(int64_t step);
  // Blocks until the reader has the data of the next step, but not longer than `time`. Returns
  // whether it has the data, or an error that the step will return.
  bool AwaitData(Duration time) { return feed_->Await(clock_.Now() + time); }
  StatusOr<Ran> RunSteps(const Run& run);
  // Returns the counts that the first metric carries from step to step (operator auc: of label 1,
  // then of label 0). Empty: the metric has no counts.
  StatusOr<std::vector<int64_t>> MetricCounts() const;
  // Returns whether each step is observed. In this case the steps must run one at a time.
  bool watched() const { return watch_.each_step(); }
  // Completes the observation of a step. The caller must call AfterWatched after each observed
  // step. `done`: number of steps done; `last`: the step was the last one. Returns a message for
  // the user; "": there is no message.
  StatusOr<std::string> AfterWatched(int64_t done, bool last) { return watch_.After(done, last); }

  bool evaluates() const { return evaluator_ != nullptr; }
  // Evaluates the current parameters. All ranks with evaluates() must make this call together.
  // nullopt: this rank only sent parameters to rank 0. REQUIRES: evaluates().
  StatusOr<std::optional<Evaluation>> Evaluate();

 private:
  StepRunner(const JobConfig& config, const SessionOptions& options, const TrainingMode& mode,
             const Clock& clock)
      : config_(config), options_(options), mode_(mode), clock_(clock) {}
  Status OpenData();
  Status BuildPlan();
  Status Feed(int part);
  Status NextBatch(int64_t step);
  Status AddResults(int parts, Ran* ran);
  void NoteKernels();
  bool leader() const { return options_.rank.rank == 0; }
  reader::ReadShare share() const;

  const JobConfig& config_;
  const SessionOptions& options_;
  const TrainingMode& mode_;
  const Clock& clock_;
  CpuDevice host_;
  std::optional<JobDevice> place_;
  std::unique_ptr<reader::Prefetcher> reader_;
  std::unique_ptr<exec::Scope> scope_;
  std::unique_ptr<ops::CodeCache> code_;
  JobPrograms programs_;
  std::unique_ptr<CountingComm> comm_;  // nullptr: the mode has no communication
  std::unique_ptr<exec::Plan> plan_;
  std::optional<StepRollback> point_;
  std::unique_ptr<exec::Executor> executor_;
  std::unique_ptr<BatchFeed> feed_;
  std::unique_ptr<ops::ConvSearch> conv_search_;
  int64_t searched_ = -1;  // number of problems of conv_search_ that are already saved
  std::string notes_;
  StepInstrumentation watch_;
  std::unique_ptr<Evaluator> evaluator_;  // nullptr: this rank takes no part in evaluations
  std::optional<LrSchedule> schedule_;
  std::string metric_name_;
  int64_t steps_total_ = 0;
  int64_t batch_ = 0;        // number of samples of a step on this rank
  double wait_seconds_ = 0;  // seconds for which the current run has waited for data
};

}  // namespace tandem::trainer
