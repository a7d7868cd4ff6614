#include "pserver/shard/trainers/step_boundary.h"

#include "common/base/require.h"
#include "common/base/step_number.h"

namespace tandem::pserver {

std::vector<uint64_t> OnceSteps(const TrainerRegistry& trainers) {
  std::vector<uint64_t> steps;
  for (int r = 0; r < trainers.size(); ++r) steps.push_back(trainers[r].once_steps);
  return steps;
}

void StepBoundary::BeginAt(const TrainerRegistry& trainers) {
  steps_ = OnceSteps(trainers);
  agreed_ = false;
}

Status StepBoundary::Agree(const std::vector<uint64_t>& steps, const TrainerRegistry& trainers) {
  if (static_cast<int>(steps.size()) != trainers.size()) {
    return InvalidArgument(
        "migration: the request names the steps of %d trainers, but the job has %d trainers",
        steps.size(), trainers.size());
  }
  if (agreed_ && steps != steps_) return Aborted("the request names other steps than before");
  for (int r = 0; r < trainers.size(); ++r) {
    const uint64_t step = steps[static_cast<size_t>(r)];
    if (trainers[r].once_steps <= step) continue;
    return Aborted(
        "the request moves row buckets before step %d of trainer %d, but this server already has "
        "step %d",
        DisplayStep(step), r, DisplayStep(trainers[r].once_steps - 1));
  }
  steps_ = steps;
  agreed_ = true;
  return OkStatus();
}

bool StepBoundary::Admits(int trainer, uint64_t step) const {
  TD_REQUIRE(trainer >= 0 && static_cast<size_t>(trainer) < steps_.size());
  return step < steps_[static_cast<size_t>(trainer)];
}

}  // namespace tandem::pserver
