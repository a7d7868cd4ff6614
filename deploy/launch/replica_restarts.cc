#include "deploy/launch/replica_restarts.h"

#include <algorithm>

#include "common/base/require.h"

namespace tandem::deploy {

Duration ReplicaRestarts::OnEnded(const ProcessPlan& plan, Duration ran, Time now) {
  TD_REQUIRE(plan.role == Role::kReplica && plan.replica >= 0);
  Restart& restart = restarts_[{plan.rank, plan.replica}];
  const bool first = restart.plan == nullptr || ran >= kStable;
  restart.plan = &plan;
  restart.pause = first ? kPauseMin : std::min(2 * restart.pause, kPauseMax);
  restart.due = now + restart.pause;
  return restart.pause;
}

std::vector<const ProcessPlan*> ReplicaRestarts::TakeDue(Time now) {
  std::vector<const ProcessPlan*> due;
  for (auto& [replica, restart] : restarts_) {
    if (restart.due > now) continue;
    restart.due = Time::max();
    due.push_back(restart.plan);
  }
  return due;
}

}  // namespace tandem::deploy
