// The position of a run's samples in the job, for dropout (kernels/ops/elementwise/dropout.h).
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "kernels/exec/scope.h"
#include "trainer/reader/open.h"

namespace tandem::trainer {

// Tells dropout which samples of which step run next, so that any number of ranks drops the same
// elements. The rank's share of the batch runs in `parts` parts, and this run is number `part`.
// Alternatively one run holds the share in `micro_batches`
// (kernels/graph/distribute/micro_batches.h). Does nothing for programs without dropout.
struct DropoutOffset {
  uint64_t seed = 0;
  int64_t step = 0;
  int part = 0, parts = 1;
  int micro_batches = 1;
};
Status PlaceDropout(Scope& scope, const reader::ReadShare& share, const DropoutOffset& place);

}  // namespace tandem::trainer
