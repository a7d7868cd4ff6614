// Decides when read replicas that have ended are started again.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "deploy/launch/launch_plan.h"

namespace tandem::deploy {

// A job does not depend on its replicas, so their restarts are not limited in number and do not
// count as restarts of the job. Instead, the pause before a restart doubles with each end of the
// same replica. Not thread-safe.
class ReplicaRestarts {
 public:
  static constexpr Duration kPauseMin = std::chrono::seconds(1);
  static constexpr Duration kPauseMax = std::chrono::seconds(60);
  // After a run of this length, the pause begins again with kPauseMin.
  static constexpr Duration kStable = std::chrono::seconds(60);

  // Records that a replica has ended at `now`, after it ran for `ran`. Returns the pause before its
  // next start. `plan` must outlive this object. REQUIRES: the plan is one of a replica.
  Duration OnEnded(const ProcessPlan& plan, Duration ran, Time now);
  // Returns the replicas whose pauses have ended. The caller starts them.
  std::vector<const ProcessPlan*> TakeDue(Time now);

 private:
  struct Restart {
    const ProcessPlan* plan = nullptr;
    Duration pause{};        // the newest pause
    Time due = Time::max();  // time of the next start; Time::max(): the replica was started
  };
  std::map<std::pair<int, int>, Restart> restarts_;  // by rank and number of the replica
};

}  // namespace tandem::deploy
