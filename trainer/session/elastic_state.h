// What a rank keeps in memory when the world of its job changes (trainer/session/elastic.h), to go
// on from with another program.
#pragma once

#include <cstdint>
#include <memory>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/tensor/device.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"
#include "trainer/modes/step_rollback.h"
#include "trainer/session/run_counts.h"

namespace tandem {

struct ElasticState {
  // What the process has done until then.
  struct Done {
    int64_t first_step = 0;
    RunHistory history;
    double train_seconds = 0;
    Time until{};
  };

  CpuDevice host;     // of the tensors
  TensorMap tensors;  // parameters and saved state, as they are before step `step`
  int64_t step = 0;
  Done done;
};

// Copies of what `program` has in `scope`, once what was done since `point` is undone. nullptr:
// that is nothing yet.
StatusOr<std::shared_ptr<const ElasticState>> KeepState(const Program& program, Scope& scope,
                                                        StepRollback& point,
                                                        ElasticState::Done done);
// Puts them where a scope has variables of their names.
Status TakeUp(const ElasticState& kept, Scope& scope);

}  // namespace tandem
