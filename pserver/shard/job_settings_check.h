// The settings that the trainers at work on a server came with, which are the same for all of them.
#pragma once

#include <functional>
#include <set>

#include "common/base/agreement.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

// Not thread-safe.
class JobSettingsCheck {
 public:
  // `trainer` comes with `settings`. FAILED_PRECONDITION naming the first difference from those of
  // another trainer that `is_at_work`: nothing was changed. When nobody is, a job with other
  // settings begins. None: OK, and nothing is changed. Who is silent for `silence_max` is not at
  // work, which the message says.
  Status Agree(int trainer, const Agreement& settings, Duration silence_max,
               const std::function<bool(int)>& is_at_work);

 private:
  Agreement settings_;
  std::set<int> trainers_;  // that came with them
};

// INVALID_ARGUMENT for what no trainer sends: too many, or not in ascending order.
Status CheckSettings(const Agreement& settings);

}  // namespace tandem
