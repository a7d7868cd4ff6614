#include "trainer/session/dropout_offset.h"

#include "common/base/require.h"
#include "kernels/graph/distribute/micro_batches.h"
#include "kernels/ops/elementwise/dropout.h"
#include "trainer/reader/input/sampler.h"

namespace tandem::trainer {

namespace {

Status Put(exec::Scope& scope, const std::string& var, const ops::DropoutPosition& at) {
  const Tensor* position = scope.Find(var);
  if (position == nullptr) return OkStatus();
  return scope.device().CopyFromHost(position->data(), &at, sizeof(at));
}

}  // namespace

Status PlaceDropout(exec::Scope& scope, const reader::ReadShare& of, const DropoutOffset& place) {
  TD_REQUIRE(place.part >= 0 && place.part < place.parts && place.micro_batches > 0);
  const reader::BatchShare share =
      reader::ShareOf(static_cast<uint32_t>(of.global_batch), static_cast<uint32_t>(of.rank),
                      static_cast<uint32_t>(of.ranks));
  const auto at = [&](int64_t part, int64_t samples) {
    return ops::DropoutPosition{static_cast<int64_t>(place.seed), place.step,
                                share.first + part * samples, samples};
  };
  for (int m = 0; m < place.micro_batches && place.micro_batches > 1; ++m) {
    TD_RETURN_IF_ERROR(Put(scope, graph::MicroName(ops::kDropoutPosition, m),
                           at(m, share.size / place.micro_batches)));
  }
  return Put(scope, ops::kDropoutPosition, at(place.part, share.size / place.parts));
}

}  // namespace tandem::trainer
