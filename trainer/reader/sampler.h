// Which samples make up which step on which rank. Everything is a pure function of the options, the
// epoch and the step, so that a job can be resumed in the middle of an epoch and every rank agrees
// without a word being sent.
//
// The order of epoch e is Permutation(StreamKey(seed, "epoch:<e>"), samples), or 0, 1, 2, ...
// without shuffling. Global batch s is positions [s*B, (s+1)*B) of it; rank r of N gets the r-th of
// its N contiguous shares. One process with batch B and N ranks with B/N therefore see the same
// samples in every step, in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// A rank's part of a global batch: samples [first, first + size) of it.
struct BatchShare {
  uint32_t first = 0, size = 0;
};
// Shares whose sizes differ by at most one, in rank order: 5 samples over 4 ranks are 1, 1, 1, 2.
BatchShare ShareOf(uint32_t global_batch, uint32_t rank, uint32_t ranks);

// What happens to the samples at the end of an epoch that do not fill a global batch
// (DataConfig.Remainder in proto/job.proto).
enum class Remainder : uint8_t {
  kPad,   // the last batch is filled with the first samples of the epoch's order
  kDrop,  // they are left out of this epoch
  kJoin   // as kPad, but what is padding alone on a rank has no weight
};

struct SamplerOptions {
  uint32_t samples = 0;       // of the dataset
  uint32_t global_batch = 0;  // samples of a step over all ranks
  uint32_t ranks = 1;
  uint32_t rank = 0;
  bool shuffle = true;
  uint64_t seed = 1;
  Remainder remainder = Remainder::kPad;
};

// One thread. Keeps the order of the epoch that was asked for last (4 bytes a sample).
class Sampler {
 public:
  // INVALID_ARGUMENT when there are no samples, when the global batch is 0 or has fewer samples
  // than there are ranks, when the rank is not below ranks, or when kDrop leaves no batch at all.
  static StatusOr<Sampler> Make(const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }
  uint64_t steps_per_epoch() const { return steps_; }  // the same on every rank, at least 1
  uint32_t batch() const { return share_.size; }       // samples of this rank in a step

  // Sample ids of this rank in a step of an epoch: batch() of them, valid until the next call.
  // REQUIRES: step < steps_per_epoch().
  std::span<const uint32_t> Batch(uint64_t epoch, uint64_t step);
  // How many of them are not padding: the first so many. They are what an evaluation counts.
  uint32_t RealSamples(uint64_t step) const;
  // What this rank's samples count for in the mean over a step, in units of what they count for in
  // one without padding: 1, but with kJoin 0 where they are padding alone, and global_batch /
  // samples of the other ranks' parts on those. The parts of all ranks always add up to a mean.
  double Weight(uint64_t step) const;

 private:
  Sampler(const SamplerOptions& options, uint64_t steps)
      : options_(options),
        share_(ShareOf(options.global_batch, options.rank, options.ranks)),
        steps_(steps) {}

  SamplerOptions options_;
  BatchShare share_;
  uint64_t steps_;
  uint64_t epoch_ = ~uint64_t{0};  // of order_
  std::vector<uint32_t> order_;
  std::vector<uint32_t> ids_;
};

}  // namespace tandem
