// A training session: one rank's part of a job from its first step to its last.
//
//   program (model zoo or file) -> autodiff -> the mode's operators -> plan -> steps
//
// Evaluation and checkpoints are rank 0's work; the others go on until they need it again.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "trainer/job/rank_env.h"
#include "trainer/modes/mode.h"
#include "trainer/monitoring/progress.h"
#include "trainer/session/run_counts.h"

namespace tandem {

class Dataset;
class JobConfig;
class StatusReporter;
struct ElasticState;

struct SessionOptions {
  std::string job_dir;   // where relative paths of the job begin; "" or ends with a slash
  std::string job_text;  // the effective job, kept beside checkpoints
  RankInfo rank;
  int64_t global_batch = 0;        // samples of a step over all ranks
  const Dataset* train = nullptr;  // not owned
  const Dataset* test = nullptr;   // not owned; what rank 0 evaluates, others may have none
  ProgressOptions progress;        // steps and worker are filled in by the session
  Progress::Sink sink;
  StatusReporter* board = nullptr;  // not owned; nullptr: nobody watches
  // Of a job whose ranks change (trainer/session/elastic.h):
  std::shared_ptr<const ElasticState> kept;  // what to go on from; nullptr: nothing
  std::function<bool()> superseded;          // whether there is another world; empty: never
  std::string news;                          // what is told of this one
};

struct SessionResult {
  std::string metric_name;   // the first metric ("accuracy", "auc"); empty: none
  double metric = 0;         // its value in the last evaluation (rank 0)
  double loss = 0;           // of the last evaluation (rank 0)
  int64_t steps = 0;         // global steps run by this session
  double seconds = 0;        // from Run to its end
  double samples_per_s = 0;  // over all ranks, inside training steps
  double data_wait_seconds = 0;
  int64_t batches_ready = 0;  // of the steps' batches: those that were there when asked for
  // reader_queue_speed_test_mode: times alone mean anything.
  bool speed_test = false;
  std::string params_sha256;  // Sha256Params of the parameters (trainer/files/safetensors.h)
  RunHistory history;
  RunCounts counts;
};

// One thread, but RequestStop.
class Session {
 public:
  // Builds programs and plans. `config`, `mode`, `clock` and what the options point to must outlive
  // the session.
  static StatusOr<std::unique_ptr<Session>> Make(const JobConfig& config, SessionOptions options,
                                                 ModeDriver& mode, const Clock& clock);
  ~Session();

  // Trains to the end of the job. CANCELLED after RequestStop; ABORTED once superseded. On an error
  // the mode has told the others.
  StatusOr<SessionResult> Run();
  // From any thread or a signal handler: after the running step a checkpoint is written where the
  // job has a folder for them, and Run ends.
  void RequestStop() { stop_.store(true); }
  // Behind a Run that failed because there is another world: what to go on from there. nullptr:
  // nothing new.
  std::shared_ptr<const ElasticState> TakeKept();

 private:
  class Impl;
  Session();

  std::atomic<bool> stop_{false};
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
