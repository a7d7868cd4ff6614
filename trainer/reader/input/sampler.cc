#include "trainer/reader/input/sampler.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/base/rng.h"

namespace tandem::reader {

BatchShare ShareOf(uint32_t global_batch, uint32_t rank, uint32_t ranks) {
  TD_REQUIRE(ranks > 0 && rank < ranks);
  const auto begin = [&](uint64_t r) { return static_cast<uint32_t>(r * global_batch / ranks); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

StatusOr<Sampler> Sampler::Make(const SamplerOptions& options) {
  if (options.samples == 0) return InvalidArgument("the data set has no samples [TD2006]");
  if (options.ranks == 0 || options.rank >= options.ranks) {
    return InvalidArgument("rank %d is out of range: the job has %d ranks, which count from 0",
                           options.rank, options.ranks);
  }
  if (options.global_batch == 0) {
    return InvalidArgument(
        "the global batch size is 0 [TD1106]; hint: set batch_size or global_batch_size");
  }
  if (options.global_batch < options.ranks) {
    return InvalidArgument(
        "a global batch of %d samples is too small: each of the %d ranks needs at least one sample "
        "[TD2006]",
        options.global_batch, options.ranks);
  }
  const uint64_t rounded_up =
      options.remainder == Remainder::kDrop ? 0 : uint64_t{options.global_batch} - 1;
  const uint64_t steps = (options.samples + rounded_up) / options.global_batch;
  if (steps == 0) {
    return InvalidArgument(
        "the data set has %d samples, fewer than one global batch of %d, and remainder: DROP "
        "leaves no step [TD2006]; hint: use a smaller batch or remainder: PAD",
        options.samples, options.global_batch);
  }
  return Sampler(options, steps);
}

std::span<const uint32_t> Sampler::Batch(uint64_t epoch, uint64_t step) {
  CHECK_LT(step, steps_);
  if (order_.empty() || epoch != epoch_) {
    if (options_.shuffle) {
      const uint64_t key = StreamKey(options_.seed, "epoch:" + std::to_string(epoch));
      order_ = Permutation(key, options_.samples);
    } else if (order_.empty()) {
      order_.resize(options_.samples);
      std::iota(order_.begin(), order_.end(), 0u);
    }
    epoch_ = epoch;
  }
  ids_.resize(batch());
  const uint64_t first = step * options_.global_batch + share_.first;
  // A batch that extends beyond the end of the order continues at the start of the order. If the
  // batch is larger than the dataset, the order repeats several times.
  for (size_t i = 0; i < ids_.size(); ++i) ids_[i] = order_[(first + i) % options_.samples];
  return ids_;
}

uint32_t Sampler::RealSamples(uint64_t step) const {
  TD_REQUIRE(step < steps_);
  const uint64_t first = step * options_.global_batch + share_.first;
  if (first >= options_.samples) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(batch(), options_.samples - first));
}

double Sampler::Weight(uint64_t step) const {
  TD_REQUIRE(step < steps_);
  const uint64_t left =
      options_.samples - std::min<uint64_t>(options_.samples, step * options_.global_batch);
  if (options_.remainder != Remainder::kJoin || left >= options_.global_batch) return 1;
  if (share_.first >= left) return 0;
  uint32_t counted = 0;
  for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
    const BatchShare share = ShareOf(options_.global_batch, rank, options_.ranks);
    if (share.first < left) counted += share.size;
  }
  return static_cast<double>(options_.global_batch) / counted;
}

}  // namespace tandem::reader
