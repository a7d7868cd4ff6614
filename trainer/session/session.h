// A training session: one rank's part of a job from its first step to its last.
//
//   program (model zoo or file) -> autodiff -> the mode's operators -> plan -> steps
//
// Rank 0 evaluates and writes checkpoints. Meanwhile the other ranks continue until they need rank
// 0.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "trainer/modes/mode.h"
#include "trainer/session/run_counts.h"
#include "trainer/session/run_history.h"
#include "trainer/session/session_options.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

struct ElasticState;

struct SessionResult {
  std::string metric_name;  // name of the first metric ("accuracy", "auc"); empty: no metric
  double metric = 0;        // value of the metric in the last evaluation (rank 0)
  double loss = 0;          // loss of the last evaluation (rank 0)
  // Scores of the last evaluation (scores.h), for data of format "table".
  std::vector<std::pair<std::string, double>> scores;
  int64_t steps = 0;         // number of the job's steps that this session ran
  double seconds = 0;        // duration of Run in seconds
  double samples_per_s = 0;  // samples of all ranks per second of training steps
  double data_wait_seconds = 0;
  int64_t batches_ready = 0;  // batches that were ready when a step requested them
  // The job has reader_queue_speed_test_mode: only the times in this result are meaningful.
  bool speed_test = false;
  std::string params_sha256;  // Sha256Params of the parameters (trainer/files/safetensors.h)
  RunHistory history;
  RunCounts counts;
};

// Runs one rank of a job. Not thread-safe, except RequestStop.
class Session {
 public:
  // Builds the programs and plans. `config`, `clock` and the objects to which `options` points must
  // outlive the session.
  static StatusOr<std::unique_ptr<Session>> Make(const JobConfig& config, SessionOptions options,
                                                 TrainingMode mode, const Clock& clock);
  ~Session();

  // Trains to the end of the job. CANCELLED: RequestStop was called. ABORTED: the job has a newer
  // world. If Run returns an error, the mode has already notified the other ranks.
  StatusOr<SessionResult> Run();
  // Requests a stop. Run then completes the current step, writes a checkpoint if the job has a
  // checkpoint directory, and returns CANCELLED. Any thread or a signal handler may call
  // RequestStop.
  void RequestStop() { stop_.store(true); }
  // Returns the state from which the next session must continue, after Run failed because of a
  // newer world. nullptr: no state was saved.
  std::shared_ptr<const ElasticState> TakeKept();

 private:
  class Impl;
  Session();

  std::atomic<bool> stop_{false};
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::trainer
