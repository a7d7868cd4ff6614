// A job in a SimWorld: servers, trainers and the faults that happen to them. Everything follows
// from one seed. Trainers run the product's client, servers run its shards.
//
// The ledger: with SGD at learning rate 1, every push adds 1 to its own slot on every server. A
// slot therefore counts how often its push was applied. Each server also has weights with arbitrary
// gradients. Their sums depend on the order, so their bits reveal a wrong order.
#pragma once

#include <string>
#include <vector>

#include "pserver/state/shard_config.h"
#include "pserver/state/wal.h"
#include "tests/sim/network.h"

namespace tandem::pserver {

struct SimPlan {
  uint64_t seed = 1;
  UpdatePolicy mode = UpdatePolicy::kSync;
  int servers = 2, trainers = 2;
  int steps = 20;  // steps of each trainer
  WalSync wal_sync = WalSync::kAlways;
  bool power = true;  // the power may fail
  uint64_t log_bytes_max = 0, checkpoint_every_steps = 0;
  int retries = 3;            // PsOptions::retries
  bool push_and_pull = true;  // push and pull in one call
  bool rows_ahead = false;    // sync: request the next rows before the push has ended
  int staleness = -1;         // a_sync: steps that a trainer may be ahead of others; -1: no limit
  SimNetwork::Habits network;
  int mischief = 0;  // number of injected faults
  // Buckets of rows and slices move between servers. One of the servers joins after the start of
  // the job and may leave again.
  bool moves = false;
  // Trainers die while buckets move and some of their last pushes are still in transit. The servers
  // are then one step apart.
  bool torn = false;
  bool cuts = false;  // a_sync: processes that may die take global snapshots
  // Servers log only the order of pushes. Trainers keep the pushes, at most `keep_bytes_max` bytes.
  bool replayable = false;
  uint64_t keep_bytes_max = uint64_t{1} << 30;
  bool forget_previous =
      false;  // a deliberate bug: checkpoints lack the parameters before the last update
  bool keep_trace = false;
};
// Derives the whole plan from the seed.
SimPlan PlanOf(uint64_t seed, UpdatePolicy mode, bool replayable = false);
// The same job without faults.
SimPlan WithoutMischief(SimPlan plan);

struct SimReport {
  std::string failure;            // "": no failure
  std::vector<float> parameters;  // all slices, then all rows
  uint64_t trace_hash = 0;
  std::vector<std::string> trace;  // with keep_trace
  int64_t pushes = 0;              // acknowledged pushes
  int64_t server_deaths = 0, trainer_deaths = 0, pauses = 0, cuts = 0;
  int64_t moved = 0, movers = 0, retired = 0;  // buckets; moving processes; servers that left
  int64_t cuts_taken = 0, restored = 0;        // global snapshots; jobs restored from one
  // SimPlan::replayable only: the number of pushes that servers report as lost together with their
  // trainer; and whether the job was given up because a sync step needs a lost push.
  uint64_t lost = 0;
  bool given_up = false;
  double seconds = 0;  // virtual time
};

// Runs the job to its end, kills all servers once more and checks the state with which they
// restart. Failures: a slot whose count contradicts the fate of its push; a_sync: parameters that
// differ from the recorded order; a server that does not restart; a job that does not end.
SimReport RunJob(const SimPlan& plan);

}  // namespace tandem::pserver
