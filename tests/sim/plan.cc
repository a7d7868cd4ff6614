#include <algorithm>

#include "common/base/rng.h"
#include "tests/sim/job.h"
#include "tests/sim/world.h"

namespace tandem::pserver {

SimPlan PlanOf(uint64_t seed, UpdatePolicy mode, bool replayable) {
  SimWorld chance(StreamKey(seed, "plan"));
  SimPlan plan{.seed = seed, .mode = mode};
  plan.servers = 1 + static_cast<int>(chance.Below(3));
  plan.trainers = 1 + static_cast<int>(chance.Below(3));
  plan.steps = 10 + static_cast<int>(chance.Below(20));
  constexpr WalSync kSyncs[] = {WalSync::kAlways, WalSync::kAlways, WalSync::kInterval,
                                WalSync::kNone};
  plan.wal_sync = kSyncs[chance.Below(4)];
  // A sync job cannot continue if a power loss destroys acknowledged steps, because the servers
  // would be at different steps. Therefore servers of a sync job lose power only with
  // wal_sync=always.
  plan.power = plan.wal_sync == WalSync::kAlways ||
               (plan.wal_sync == WalSync::kInterval && mode == UpdatePolicy::kASync);
  plan.log_bytes_max = chance.Chance(0.5) ? 2'000 + chance.Below(20'000) : uint64_t{1} << 40;
  plan.checkpoint_every_steps = chance.Chance(0.5) ? 1 + chance.Below(8) : 0;
  plan.retries = chance.Chance(0.5) ? 3 : 1000;
  plan.push_and_pull = chance.Chance(0.5);
  plan.network.lose = chance.Chance(0.5) ? 0.02 : 0;
  plan.network.repeat = chance.Chance(0.5) ? 0.05 : 0;
  plan.network.dawdle = chance.Chance(0.5) ? 0.02 : 0;
  plan.mischief = 2 + static_cast<int>(chance.Below(14));
  plan.moves = chance.Chance(0.5) && !replayable;
  if (plan.moves) {
    // Doubles the number of steps, because in sync mode rows move only between two steps.
    if (mode == UpdatePolicy::kSync) plan.steps *= 2;
    plan.mischief *= 2;
    if (chance.Chance(0.5)) plan.network.repeat = 0.3;
    if (chance.Chance(0.5)) plan.network.dawdle = 0.1;
  }
  plan.replayable = replayable;
  if (replayable && chance.Chance(0.5)) plan.keep_bytes_max = 1'000 + chance.Below(20'000);
  plan.cuts = mode == UpdatePolicy::kASync && chance.Chance(0.6);
  plan.rows_ahead = mode == UpdatePolicy::kSync && chance.Chance(0.5);
  if (mode == UpdatePolicy::kASync && chance.Chance(0.4)) {
    plan.staleness = static_cast<int>(chance.Below(4));
  }
  return plan;
}

SimPlan StandbyPlanOf(uint64_t seed, UpdatePolicy mode) {
  SimPlan plan = PlanOf(seed, mode);
  SimWorld chance(StreamKey(seed, "standbys"));
  plan.standbys = chance.Chance(0.6) ? 1 : 2;
  plan.servers = std::min(plan.servers, 2);
  plan.moves = false;
  plan.cuts =
      plan.mode == UpdatePolicy::kASync && SimWorld(StreamKey(plan.seed, "cuts")).Chance(0.5);
  plan.power = true;
  plan.mischief = 6 + static_cast<int>(chance.Below(24));
  plan.think_ms = 60;
  plan.large_checkpoints = chance.Chance(0.05);
  return plan;
}

SimPlan WithReaders(SimPlan plan) {
  SimWorld chance(StreamKey(plan.seed, "readers"));
  plan.followers = 1 + static_cast<int>(chance.Below(2));
  plan.replicas = static_cast<int>(chance.Below(2));
  plan.fading = plan.seed % 2 == 0 ? "shrink_every=3 ttl=4" : "shrink_every_s=3 ttl_s=4";
  // A follower that has fallen further back begins with all rows.
  plan.changed_rows_max = chance.Chance(0.3) ? 10 + chance.Below(40) : 1'000'000;
  plan.think_ms = std::max(plan.think_ms, 20);
  plan.mischief += 6 + static_cast<int>(chance.Below(10));
  return plan;
}

SimPlan WithSource(SimPlan plan) {
  SimWorld chance(StreamKey(plan.seed, "source"));
  plan.source = true;
  // A record that was acknowledged and then lost with the power would be lost for the job.
  plan.power = plan.wal_sync == WalSync::kAlways || plan.standbys != 0;
  plan.moves = false;  // see WithMoves
  plan.cuts = plan.standbys == 0 && chance.Chance(0.6);
  plan.think_ms = std::max(plan.think_ms, 20);
  plan.mischief += 4 + static_cast<int>(chance.Below(8));
  if (plan.cuts) {
    plan.steps += 20;
    plan.mischief *= 2;
  }
  return plan;
}

SimPlan WithMoves(SimPlan plan, bool torn) {
  plan.moves = true;
  plan.torn = torn;
  plan.cuts = false;  // a global snapshot cannot be restored after buckets moved
  plan.servers = torn ? 3 : 2;
  plan.steps = plan.mischief = 60;
  return plan;
}

SimPlan WithMovesOfGroups(SimPlan plan) {
  plan.moves = true;
  plan.cuts = false;  // a global snapshot cannot be restored after buckets moved
  plan.servers = 2;
  plan.steps *= 2;
  plan.mischief *= 2;
  return plan;
}

SimPlan WithoutMischief(SimPlan plan) {
  plan.network = {};
  plan.mischief = 0;
  plan.followers = plan.replicas = 0;
  if (plan.standbys == 0) return plan;
  plan.standbys = plan.think_ms = 0;
  // A server without standbys may lose its power only if it syncs its log.
  plan.power = plan.wal_sync == WalSync::kAlways;
  return plan;
}

}  // namespace tandem::pserver
