// Where a run's samples lie in the job, for dropout (kernels/ops/elementwise/dropout.h).
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "kernels/exec/scope.h"
#include "trainer/reader/open.h"

namespace tandem {

// Tells dropout which samples of which step are run: the same ones are dropped on any ranks. The
// rank's share of the batch is run in `parts`, of which this is number `part`; or one run has it in
// `micro_batches` (kernels/graph/passes/micro_batches.h). Nothing to do for programs without
// dropout.
struct DropoutOffset {
  uint64_t seed = 0;
  int64_t step = 0;
  int part = 0, parts = 1;
  int micro_batches = 1;
};
Status PlaceDropout(Scope& scope, const ReadShare& share, const DropoutOffset& place);

}  // namespace tandem
