// The inputs of a session besides its job: the rank, the data and the receivers of reports.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trainer/config/rank_env.h"
#include "trainer/monitoring/progress.h"

namespace tandem::reader {
class Dataset;
class StreamDataset;
}  // namespace tandem::reader

namespace tandem::trainer {

class StatusReporter;
struct ElasticState;

struct SessionOptions {
  std::string job_dir;   // base of the job's relative paths; "" or with a slash at the end
  std::string job_text;  // the effective job file, stored with checkpoints
  RankInfo rank;
  int64_t global_batch = 0;                       // samples of a step on all ranks
  const reader::Dataset* train = nullptr;         // training data; not owned
  const reader::StreamDataset* stream = nullptr;  // `train` if it is a stream; not owned
  // Test data for the evaluations of rank 0; not owned. May be null on other ranks.
  const reader::Dataset* test = nullptr;
  ProgressOptions progress;  // the session sets the fields steps and worker
  Progress::Sink sink;
  StatusReporter* board = nullptr;  // receives data for the status page; not owned; may be null
  // The following options are for an elastic job (trainer/session/elastic.h).
  std::shared_ptr<const ElasticState> kept;  // state to continue from; nullptr: no such state
  // Returns whether a newer world exists; empty: the world never changes.
  std::function<bool()> superseded;
  std::string message;  // message for the user about this world
};

}  // namespace tandem::trainer
