// Compares the settings of the trainers that are active on a server. They must be the same for all.
#pragma once

#include <functional>
#include <set>

#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::pserver {

// Not thread-safe.
class JobSettingsCheck {
 public:
  // Compares `settings` of `trainer` with those of other trainers that are active (`is_at_work`).
  // FAILED_PRECONDITION: they differ (the message names the first difference); nothing changes. If
  // no trainer is active, a job with other settings begins. Empty settings: OK, nothing changes. A
  // trainer without a call for `silence_max` is not active; the message mentions this time.
  Status Agree(int trainer, const Agreement& settings, Duration silence_max,
               const std::function<bool(int)>& is_at_work);

 private:
  Agreement settings_;
  std::set<int> trainers_;  // trainers with these settings
};

// INVALID_ARGUMENT: too many settings, or not in ascending order.
Status CheckSettings(const Agreement& settings);

}  // namespace tandem::pserver
