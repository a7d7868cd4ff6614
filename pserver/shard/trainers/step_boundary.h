// The steps before which buckets move in a job with ShardConfig::each_step_once. Each trainer makes
// its steps independently of the others, so each trainer has its own step.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "pserver/shard/trainers/trainer_registry.h"

namespace tandem::pserver {

// Returns by trainer the number of its steps that the server has (TrainerRegistry::once_steps).
std::vector<uint64_t> OnceSteps(const TrainerRegistry& trainers);

// A boundary in the steps of each trainer. The source and the target of a move accept only pushes
// of the steps before the boundary. Both servers then have the same steps of each trainer, so a
// bucket that moves has them too. Not thread-safe.
class StepBoundary {
 public:
  // Sets the boundary to the steps that the server has.
  void BeginAt(const TrainerRegistry& trainers);
  // Sets the boundary to `steps`, which the coordinator also sends to the other server.
  // INVALID_ARGUMENT: `steps` is not for this number of trainers. ABORTED: the server has a later
  // step of a trainer, or other steps were agreed since BeginAt. After an error, nothing has
  // changed.
  Status Agree(const std::vector<uint64_t>& steps, const TrainerRegistry& trainers);
  // Returns whether Agree has set the boundary and the server has all steps before it.
  bool Reached(const TrainerRegistry& trainers) const {
    return agreed_ && steps_ == OnceSteps(trainers);
  }
  // Returns whether `step` of the trainer is before the boundary.
  bool Admits(int trainer, uint64_t step) const;

 private:
  std::vector<uint64_t> steps_;  // by trainer
  bool agreed_ = false;
};

}  // namespace tandem::pserver
