// Tells dropout which samples of the job a run processes (kernels/ops/elementwise/dropout.h).
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "kernels/exec/scope.h"
#include "trainer/reader/open.h"

namespace tandem::trainer {

// Tells the dropout operators which samples of which step run next. Thus the same elements are
// dropped for any number of ranks. Either the rank's share of the batch runs in `parts` parts, and
// the next run is number `part`. Or one run processes the whole share in `micro_batches`
// (kernels/graph/distribute/micro_batches.h). PlaceDropout does nothing for programs without
// dropout.
struct DropoutOffset {
  uint64_t seed = 0;
  int64_t step = 0;
  int part = 0, parts = 1;
  int micro_batches = 1;
};
Status PlaceDropout(exec::Scope& scope, const reader::ReadShare& share, const DropoutOffset& place);

}  // namespace tandem::trainer
