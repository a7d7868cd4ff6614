// The checkpoints of a session: loads the first state and saves later ones.
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

// The other ranks' part of a Save: sends rank 0 their shards of the state.
Status SendStateToRank0(const TrainingMode& mode, const Program& program, Scope& scope,
                        Device& host);

// Used on rank 0 only. Not thread-safe.
class SessionCheckpoints {
 public:
  using Warn = std::function<void(const std::string& what)>;
  struct Resumed {
    int64_t step = 0;     // the first step to run
    std::string changes;  // changes of the job since the checkpoint (trainer/job/job_changes.h)
    TensorMap state;
  };

  // Uses the directory that the job `config` names. All arguments must outlive this object; tensors
  // are read into memory of `host`.
  SessionCheckpoints(const JobConfig& config, const SessionOptions& options,
                     const TrainingMode& mode, Device& host);

  // Loads the newest checkpoint into `scope` and the mode. Step 0: there is no checkpoint; the
  // directory exists after the call. PERMISSION_DENIED: the directory is not writable.
  // FAILED_PRECONDITION: the checkpoint belongs to another job, or the job says that there must be
  // none.
  StatusOr<Resumed> Resume(int64_t steps_per_epoch, Scope& scope, const Warn& warn);

  // If the state is sharded over the ranks, all other ranks must be in SendStateToRank0.
  Status Save(int64_t steps_done, int64_t steps_per_epoch, const Program& program, Scope& scope,
              const Warn& warn);

 private:
  const JobConfig& config_;
  const SessionOptions& options_;
  const TrainingMode& mode_;
  Device& host_;
  CheckpointStore store_;
};

}  // namespace tandem::trainer
