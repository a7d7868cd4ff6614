// Records the furthest step of a job in a file beside its checkpoints. After a loss of all ranks
// the job resumes from a checkpoint and repeats the steps from this checkpoint to the furthest
// step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"

namespace tandem::trainer {

// The record of the furthest step. Not thread-safe. Only one process of the job may record steps.
class StepHighWaterMark {
 public:
  // `dir`: the checkpoint directory of the job named `job`. The clock must outlive this object.
  StepHighWaterMark(const std::string& dir, std::string job, const Clock& clock);

  // Returns the recorded number of steps. 0: the file is absent, belongs to another job, or cannot
  // be read.
  int64_t Read() const;

  // Records that `steps_done` steps are done. Writes the file atomically, at most once a second,
  // and only if the number is larger than the recorded one. Ignores a write error, so that the job
  // continues.
  void Note(int64_t steps_done);

 private:
  const std::string path_, job_;
  const Clock& clock_;
  std::optional<Time> written_;
  int64_t noted_;
};

}  // namespace tandem::trainer
