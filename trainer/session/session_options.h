// The inputs of a session besides its job: the rank, the data and where reports go.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trainer/job/rank_env.h"
#include "trainer/monitoring/progress.h"

namespace tandem::reader {
class Dataset;
}  // namespace tandem::reader

namespace tandem::trainer {

class StatusReporter;
struct ElasticState;

struct SessionOptions {
  std::string job_dir;   // base of the job's relative paths; "" or ends with a slash
  std::string job_text;  // the effective job, stored with checkpoints
  RankInfo rank;
  int64_t global_batch = 0;                // samples of a step over all ranks
  const reader::Dataset* train = nullptr;  // not owned
  // Not owned; the data that rank 0 evaluates; may be null on others.
  const reader::Dataset* test = nullptr;
  ProgressOptions progress;  // the session fills in steps and worker
  Progress::Sink sink;
  StatusReporter* board = nullptr;  // not owned; nullptr: no status page
  // For an elastic job (trainer/session/elastic.h):
  std::shared_ptr<const ElasticState> kept;  // state to continue from; nullptr: none
  std::function<bool()> superseded;          // whether there is a newer world; empty: never
  std::string message;                       // for the user, about this world
};

}  // namespace tandem::trainer
