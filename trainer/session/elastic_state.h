// The state that a process of an elastic job keeps in memory when the world of the job changes
// (trainer/session/elastic.h). In the new world, the process continues from this state with another
// graph::Program.
#pragma once

#include <cstdint>
#include <memory>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/tensor/device.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"
#include "trainer/modes/state/step_rollback.h"
#include "trainer/session/run_history.h"

namespace tandem::trainer {

struct ElasticState {
  // The progress of this process before the change of the world.
  struct Done {
    int64_t first_step = 0;
    RunHistory history;
    double train_seconds = 0;
    Time until{};
  };

  CpuDevice host;     // the CPU, in whose memory the tensors are
  TensorMap tensors;  // parameters and saved state before step `step`
  int64_t step = 0;
  Done done;
};

// Undoes the changes since `point`, and returns a copy of the state of `program` in `scope`.
// nullptr: `point` has not saved any state.
StatusOr<std::shared_ptr<const ElasticState>> KeepState(const graph::Program& program,
                                                        exec::Scope& scope, StepRollback& point,
                                                        ElasticState::Done done);
// Copies the tensors of `kept` into the variables of `scope` that have the same names.
Status TakeUp(const ElasticState& kept, exec::Scope& scope);

}  // namespace tandem::trainer
