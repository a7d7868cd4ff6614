// The checkpoints of a session: loads the initial state and saves later states.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/files/checkpoint.h"
#include "trainer/modes/mode.h"
#include "trainer/session/session_options.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// Sends this rank's shards of the state to rank 0. All other ranks must call SendStateToRank0 when
// rank 0 calls SessionCheckpoints::Save.
Status SendStateToRank0(const TrainingMode& mode, const graph::Program& program, exec::Scope& scope,
                        Device& host);

// Loads and saves checkpoints on rank 0. Not thread-safe.
class SessionCheckpoints {
 public:
  using Warn = std::function<void(const std::string& what)>;
  struct Resumed {
    int64_t step = 0;     // the first step to run after the checkpoint
    std::string changes;  // changes of the job since the checkpoint (trainer/config/job_changes.h)
    TensorMap state;
  };

  // Uses the checkpoint directory of the job `config`. All arguments must outlive this object.
  // Loads checkpoints into memory of `host`.
  SessionCheckpoints(const JobConfig& config, const SessionOptions& options,
                     const TrainingMode& mode, Device& host);

  // Loads the newest checkpoint into `scope` and the mode. Creates the directory. The result has
  // step 0 if there is no checkpoint. PERMISSION_DENIED: the directory is not writable.
  // FAILED_PRECONDITION: the checkpoint belongs to another job, or checkpoint.resume is false
  // although there is a checkpoint.
  StatusOr<Resumed> Resume(int64_t steps_per_epoch, exec::Scope& scope, const Warn& warn);

  // Saves a checkpoint after `steps_done` steps. If the state is sharded over the ranks, all other
  // ranks must call SendStateToRank0 at the same time.
  Status Save(int64_t steps_done, int64_t steps_per_epoch, const graph::Program& program,
              exec::Scope& scope, const Warn& warn);

 private:
  const JobConfig& config_;
  const SessionOptions& options_;
  const TrainingMode& mode_;
  Device& host_;
  CheckpointStore store_;
};

}  // namespace tandem::trainer
