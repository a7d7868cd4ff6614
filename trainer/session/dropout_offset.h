// Tells the dropout operators which samples of the job a run processes
// (kernels/ops/elementwise/dropout.h).
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "kernels/exec/scope.h"
#include "trainer/reader/open.h"

namespace tandem::trainer {

// The position of one run in the job.
struct DropoutOffset {
  uint64_t seed = 0;  // seed of the job
  int64_t step = 0;   // number of the global step
  // The rank's share of the batch is divided among `parts` runs. `part` is the number of the run,
  // from 0.
  int part = 0, parts = 1;
  // Number of micro batches of the rank's share (kernels/graph/distribute/micro_batches.h).
  int micro_batches = 1;
};
// Sets the step and the samples of the next run for the dropout operators in `scope`. `share`: the
// rank's share of the batch. With these positions, the dropped elements do not depend on the number
// of ranks. Does nothing for programs without dropout.
Status PlaceDropout(exec::Scope& scope, const reader::ReadShare& share, const DropoutOffset& place);

}  // namespace tandem::trainer
