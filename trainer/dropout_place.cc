#include "trainer/dropout_place.h"

#include "kernels/ops/dropout.h"
#include "trainer/reader/sampler.h"

namespace tandem {

Status PlaceDropout(Scope& scope, const RankInfo& rank, const DropoutPlace& place) {
  const Tensor* position = scope.Find(kDropoutPosition);
  if (position == nullptr) return OkStatus();
  const BatchShare share =
      ShareOf(static_cast<uint32_t>(place.global_batch), static_cast<uint32_t>(rank.rank),
              static_cast<uint32_t>(rank.size));
  const int64_t samples = share.size / place.parts;
  const DropoutPosition at{static_cast<int64_t>(place.seed), place.step,
                           share.first + place.part * samples, samples};
  return scope.device().CopyFromHost(position->data(), &at, sizeof(at));
}

}  // namespace tandem
