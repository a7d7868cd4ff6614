// A job in a SimWorld: servers, trainers and what befalls them, all of it from one seed. Trainers
// run the product's client, servers its shards.
//
// The ledger: with SGD at learning rate 1, every push adds 1 to a slot of its own on every server,
// so that a slot is the number of times that its push was applied. Beside it lie weights whose
// gradients are arbitrary numbers: sums of those depend on the order, so their bits tell more.
#pragma once

#include <string>
#include <vector>

#include "pserver/state/shard_types.h"
#include "pserver/state/wal.h"
#include "tests/sim/network.h"

namespace tandem {

struct SimPlan {
  uint64_t seed = 1;
  ShardMode mode = ShardMode::kSync;
  int servers = 2, trainers = 2;
  int steps = 20;  // of each trainer
  WalSync wal_sync = WalSync::kAlways;
  bool power = true;  // it may fail
  uint64_t log_bytes_max = 0, checkpoint_every_steps = 0;
  int retries = 3;            // PsOptions::retries
  bool push_and_pull = true;  // in one call
  bool rows_ahead = false;    // sync: the next rows are asked for before the push has ended
  int staleness = -1;         // a_sync: steps that a trainer may be ahead of the others; -1: any
  SimNetwork::Habits network;
  int mischief = 0;  // events that befall the job
  // Buckets of rows and slices move between servers, among them one that the job does not begin
  // with, and that may go away again.
  bool moves = false;
  // Trainers die while buckets move and some of their last pushes are under way still: servers are
  // a step apart then.
  bool torn = false;
  bool cuts = false;  // a_sync: processes that may die take cuts over all servers
  // Servers log the order of pushes alone, and trainers keep them, so much at most.
  bool replayable = false;
  uint64_t keep_bytes_max = uint64_t{1} << 30;
  // Mistakes on purpose.
  ShardBug bug = ShardBug::kNone;
  bool forget_previous = false;  // checkpoints lack the parameters before the last update
  bool keep_trace = false;
};
// Everything that follows from the seed.
SimPlan PlanOf(uint64_t seed, ShardMode mode, bool replayable = false);
// The same job, to which nothing happens.
SimPlan WithoutMischief(SimPlan plan);

struct SimReport {
  std::string failure;            // "": all is as it must be
  std::vector<float> parameters;  // all slices, then all rows
  uint64_t trace_hash = 0;
  std::vector<std::string> trace;  // with keep_trace
  int64_t pushes = 0;              // that were acknowledged
  int64_t server_deaths = 0, trainer_deaths = 0, pauses = 0, cuts = 0;
  int64_t moved = 0, movers = 0, retired = 0;  // buckets; those who move them; servers
  int64_t cuts_taken = 0, restored = 0;        // over all servers; jobs that went back to one
  // With SimPlan::replayable: pushes that servers say were gone with their trainer; and the job was
  // given up, because one of those was part of a sync step.
  uint64_t lost = 0;
  bool given_up = false;
  double seconds = 0;  // of virtual time
};

// Runs the job to its end, kills all servers once more and looks at what they come back with.
// Failures: a slot that is not what its push's fate allows; a_sync: parameters that are not those
// of the recorded order; a server that does not come back; a job that does not end.
SimReport RunJob(const SimPlan& plan);

}  // namespace tandem
