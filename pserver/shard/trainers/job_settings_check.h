// Checks that all trainers that are active on a server have the same settings of the job.
#pragma once

#include <functional>
#include <set>

#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::pserver {

// Remembers the settings of the trainers. Not thread-safe.
class JobSettingsCheck {
 public:
  // Compares `settings` of `trainer` with the settings of the other active trainers. `is_at_work`:
  // returns whether a trainer is active. FAILED_PRECONDITION: the settings differ (the message
  // names the first difference); nothing changes. If no other trainer is active, a job with the new
  // settings begins. If `settings` is empty, returns OK and changes nothing. `silence_max`: time
  // without a call after which a trainer is inactive (only for the message).
  Status Agree(int trainer, const Agreement& settings, Duration silence_max,
               const std::function<bool(int)>& is_at_work);

 private:
  Agreement settings_;
  std::set<int> trainers_;  // trainers that have the settings in settings_
};

// Checks the form of settings. INVALID_ARGUMENT: there are too many settings, a text is too long,
// or the names do not ascend.
Status CheckSettings(const Agreement& settings);

}  // namespace tandem::pserver
