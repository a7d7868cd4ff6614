// Assigns samples to steps and ranks. The result is a pure function of options, epoch and step. A
// job can therefore resume in the middle of an epoch, and ranks agree without communication.
//
// The order of epoch e is Permutation(StreamKey(seed, "epoch:<e>"), samples), or 0, 1, 2, ...
// without shuffling. Global batch s has positions [s*B, (s+1)*B) of this order; rank r of N gets
// the r-th of its N contiguous shares. One process with batch B and N ranks with B/N therefore see
// the same samples in every step, in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

// A rank's part of a global batch: samples [first, first + size).
struct BatchShare {
  uint32_t first = 0, size = 0;
};
// Shares in rank order that differ in size by at most one: 5 samples over 4 ranks are 1, 1, 1, 2.
BatchShare ShareOf(uint32_t global_batch, uint32_t rank, uint32_t ranks);

// Treatment of the samples at the end of an epoch that do not fill a global batch
// (DataConfig.Remainder in proto/job.proto).
enum class Remainder : uint8_t {
  kPad,   // the first samples of the epoch's order fill the last batch
  kDrop,  // this epoch skips them
  kJoin   // as kPad, but a rank with padding only has weight 0
};

struct SamplerOptions {
  uint32_t samples = 0;       // size of the dataset
  uint32_t global_batch = 0;  // samples of a step over all ranks
  uint32_t ranks = 1;
  uint32_t rank = 0;
  bool shuffle = true;
  uint64_t seed = 1;
  Remainder remainder = Remainder::kPad;
};

// Not thread-safe. Keeps the order of the last requested epoch (4 bytes per sample).
class Sampler {
 public:
  // INVALID_ARGUMENT: there are no samples, the global batch is 0 or smaller than the number of
  // ranks, rank >= ranks, or kDrop leaves no batch.
  static StatusOr<Sampler> Make(const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }
  uint64_t steps_per_epoch() const { return steps_; }  // the same on every rank, at least 1
  uint32_t batch() const { return share_.size; }       // samples of this rank in a step

  // Sample ids of this rank in a step of an epoch: batch() ids, valid until the next call.
  // REQUIRES: step < steps_per_epoch().
  std::span<const uint32_t> Batch(uint64_t epoch, uint64_t step);
  // The number of samples in the batch without padding, which is at the end. An evaluation counts
  // only these samples.
  uint32_t RealSamples(uint64_t step) const;
  // The weight of this rank's samples in the mean over a step, relative to a step without padding.
  // It is 1, except with kJoin: a rank with padding only has 0, and the other ranks have
  // global_batch / (samples of the other ranks' parts). The weighted parts of all ranks always form
  // a mean.
  double Weight(uint64_t step) const;

 private:
  Sampler(const SamplerOptions& options, uint64_t steps)
      : options_(options),
        share_(ShareOf(options.global_batch, options.rank, options.ranks)),
        steps_(steps) {}

  SamplerOptions options_;
  BatchShare share_;
  uint64_t steps_;
  uint64_t epoch_ = ~uint64_t{0};  // epoch of order_
  std::vector<uint32_t> order_;
  std::vector<uint32_t> ids_;
};

}  // namespace tandem::reader
