// How far a job has come, in a file beside its checkpoints: of processes that go on from one of
// these after all of its ranks died, it says which steps are run again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"

namespace tandem {

// One thread; a single process of the job notes steps.
class StepHighWaterMark {
 public:
  // In the folder of the checkpoints of the job of this name. The clock must outlive this.
  StepHighWaterMark(const std::string& dir, std::string job, const Clock& clock);

  // Steps that were done when it was noted last; 0 when there is no such file, it is of another
  // job, or it cannot be read.
  int64_t Read() const;

  // So many steps are done. Writes at most once a second, whole or not at all, and never fewer
  // steps than are there. Of a file that cannot be written nothing is said: the job matters more.
  void Note(int64_t steps_done);

 private:
  const std::string path_, job_;
  const Clock& clock_;
  std::optional<Time> written_;
  int64_t noted_;
};

}  // namespace tandem
