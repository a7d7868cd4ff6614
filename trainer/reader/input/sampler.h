// Assigns samples to steps and ranks. The result is a pure function of options, epoch and step.
// Therefore a job can resume in the middle of an epoch, and ranks agree without communication.
//
// The order of epoch e is Permutation(StreamKey(seed, "epoch:<e>"), samples), or 0, 1, 2, ...
// without shuffling. With global batches of B samples, batch s has the positions [s*B, (s+1)*B) of
// this order. A batch is divided into N contiguous shares for N ranks, and rank r gets share r.
// Therefore one process with batch B and N ranks with batch B/N use the same samples in each step,
// in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

// The part of a global batch that a rank gets: samples [first, first + size).
struct BatchShare {
  uint32_t first = 0, size = 0;
};
// Returns the share of `rank`. Shares are in the order of the ranks and differ in size by at most
// one: a batch of 5 on 4 ranks has the shares 1, 1, 1, 2.
BatchShare ShareOf(uint32_t global_batch, uint32_t rank, uint32_t ranks);

// Treatment of the samples at the end of an epoch that do not fill a global batch
// (DataConfig.Remainder in proto/job.proto).
enum class Remainder : uint8_t {
  kPad,   // the batch is filled with the first samples of the epoch's order
  kDrop,  // the samples are skipped in this epoch
  // Like kPad, but a rank whose share is only padding has weight 0.
  kJoin
};

struct SamplerOptions {
  uint32_t samples = 0;       // number of samples in the dataset
  uint32_t global_batch = 0;  // number of samples of a step on all ranks
  uint32_t ranks = 1;
  uint32_t rank = 0;
  bool shuffle = true;
  uint64_t seed = 1;
  Remainder remainder = Remainder::kPad;
};

// Determines the samples of one rank. Keeps the order of the last requested epoch (4 bytes per
// sample). Not thread-safe.
class Sampler {
 public:
  // INVALID_ARGUMENT: there are no samples, the global batch is 0 or smaller than the number of
  // ranks, `rank` is not below `ranks`, or kDrop leaves no batch.
  static StatusOr<Sampler> Make(const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }
  uint64_t steps_per_epoch() const { return steps_; }  // number of steps, equal on all ranks; >= 1
  uint32_t batch() const { return share_.size; }       // number of samples of a step on this rank

  // Returns the ids of the batch() samples that this rank has in a step of an epoch. The ids are
  // valid until the next call. REQUIRES: step < steps_per_epoch().
  std::span<const uint32_t> Batch(uint64_t epoch, uint64_t step);
  // Returns the number of samples of this rank's batch that are no padding. The padding is at the
  // end of the batch. An evaluation counts only samples that are no padding.
  uint32_t RealSamples(uint64_t step) const;
  // Returns the weight of this rank's samples in the mean over a step, relative to a step without
  // padding. The weight is 1, except with kJoin if some ranks have only padding. Then these ranks
  // have weight 0, and the other ranks have the weight global_batch / (total size of their shares).
  // The weighted samples of all ranks therefore always form a mean.
  double Weight(uint64_t step) const;

 private:
  Sampler(const SamplerOptions& options, uint64_t steps)
      : options_(options),
        share_(ShareOf(options.global_batch, options.rank, options.ranks)),
        steps_(steps) {}

  SamplerOptions options_;
  BatchShare share_;
  uint64_t steps_;
  uint64_t epoch_ = ~uint64_t{0};  // the epoch whose order is in order_
  std::vector<uint32_t> order_;
  std::vector<uint32_t> ids_;
};

}  // namespace tandem::reader
