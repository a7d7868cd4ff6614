// The checkpoints of a session: what it goes on from, and what it leaves behind.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/files/checkpoint.h"
#include "trainer/modes/mode.h"
#include "trainer/session/session.h"

namespace tandem {

// Gives every parameter and state its first value: that of the tensor of its name in the file that
// model.parameters names, else what the program says. Adds to `notes` what the user should know.
// NOT_FOUND when the file has no variable of the program; FAILED_PRECONDITION when a description
// differs; UNIMPLEMENTED for a table whose rows pservers make.
Status SetFirstValues(const JobConfig& config, const SessionOptions& options,
                      const Program& program, Scope& scope, Device& host, std::string* notes);

// The other ranks' part of a Save: what rank 0 needs of the state that is spread over them.
Status SendStateToRank0(ModeDriver& mode, const Program& program, Scope& scope, Device& host);

// Rank 0's. One thread.
class SessionCheckpoints {
 public:
  using Warn = std::function<void(const std::string& what)>;
  struct Resumed {
    int64_t step = 0;     // the first one to run
    std::string changes;  // of the job since then (trainer/job/job_changes.h)
    TensorMap state;
  };

  // In the folder that the job `config` names. All must outlive this; tensors are read into memory
  // of `host`.
  SessionCheckpoints(const JobConfig& config, const SessionOptions& options, ModeDriver& mode,
                     Device& host);

  // The newest one goes into `scope` and to the mode; step 0 when there is none: then the folder is
  // there from now on, and PERMISSION_DENIED says that nothing can be written into it.
  // FAILED_PRECONDITION for one of another job, and where the job says that there must be none.
  StatusOr<Resumed> Resume(int64_t steps_per_epoch, Scope& scope, const Warn& warn);

  // Called while all others are in SendStateToRank0, where the state is spread over the ranks.
  Status Save(int64_t steps_done, int64_t steps_per_epoch, const Program& program, Scope& scope,
              const Warn& warn);

 private:
  const JobConfig& config_;
  const SessionOptions& options_;
  ModeDriver& mode_;
  Device& host_;
  CheckpointStore store_;
};

}  // namespace tandem
