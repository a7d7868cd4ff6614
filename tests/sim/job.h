// A job in a SimWorld: servers, trainers, and faults. One seed determines all events. Trainers run
// the product's client, and servers run the product's shards.
//
// The job has a ledger. With SGD at learning rate 1, every push adds 1 to a separate slot on every
// server. Thus the value of a slot is the number of times that the server applied the push. Each
// server also has weights with arbitrary gradients. The weights depend on the order of the pushes,
// so a wrong order gives other bits.
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
  int steps = 20;  // number of steps of each trainer
  WalSync wal_sync = WalSync::kAlways;
  bool power = true;  // whether a server may lose its power
  uint64_t log_bytes_max = 0, checkpoint_every_steps = 0;
  int retries = 3;            // value for PsOptions::retries
  bool push_and_pull = true;  // whether a step pushes and pulls with one call
  // Sync mode: a trainer requests the rows of the next step before the push of the current step has
  // ended.
  bool rows_ahead = false;
  // a_sync mode: the maximum lead of a trainer over the slowest trainer, in steps; -1: no limit.
  int staleness = -1;
  SimNetwork::Habits network;
  int mischief = 0;  // number of faults that are injected into the job
  // Whether buckets of rows and slices of parameters move between servers. One server joins after
  // the start of the job and may leave again.
  bool moves = false;
  // Whether trainers die while buckets move and while some of their last pushes are in transit.
  // After such a death, servers may be one step apart.
  bool torn = false;
  bool cuts = false;  // a_sync mode: processes take global snapshots, and these processes may die
  // Whether servers log only the order of pushes. If so, trainers keep their pushes, at most
  // `keep_bytes_max` bytes per trainer.
  bool replayable = false;
  uint64_t keep_bytes_max = uint64_t{1} << 30;
  bool forget_previous =
      false;  // injects a bug: checkpoints lack the parameters before the last update
  // Number of standbys of each server; 0: none. In a job with standbys, servers log whole pushes
  // (`replayable` is false), and no server leaves the job.
  int standbys = 0;
  Replication replication = Replication::kQuorum;  // with standbys
  int think_ms = 0;                                // maximum time of a trainer between two steps
  bool large_checkpoints = false;                  // standbys fetch a checkpoint in several parts
  // Whether a member (a primary or a standby) may die while another member of its server lacks log
  // entries that it has lost.
  bool deaths_while_damaged = false;
  // Number of programs that follow each table of the job; 0: none. Then the servers also have
  // `replicas` replicas each, the job has a table whose rows are removed, and clocks of servers
  // jump.
  int followers = 0, replicas = 0;
  std::string
      fading;  // rules of the table "fading" (SimLedger::Tables); "": there is no such table
  // a_sync mode: trainers read records of a stream, and a step of a trainer is one record. Servers
  // count each step once (PsJobRules::each_step_once). With `cuts`, the job is restored while it
  // runs.
  bool source = false;
  size_t changed_rows_max = 0;  // number of changed rows that a server remembers for each table
  bool keep_trace = false;
};
// Derives all other fields of the plan from `seed`.
SimPlan PlanOf(uint64_t seed, UpdatePolicy mode, bool replayable = false);
// Returns the plan of a job whose servers have standbys.
SimPlan StandbyPlanOf(uint64_t seed, UpdatePolicy mode);
// Adds followers and replicas to a plan without SimPlan::replayable.
SimPlan WithReaders(SimPlan plan);
// Makes the trainers of a plan of an a_sync job read a stream.
SimPlan WithSource(SimPlan plan);
// Makes buckets move in every job of the plan. `torn`: SimPlan::torn.
SimPlan WithMoves(SimPlan plan, bool torn);
// Makes buckets move between servers with standbys in every job of the plan.
SimPlan WithMovesOfGroups(SimPlan plan);
// Returns the plan of the same job without faults, standbys and readers.
SimPlan WithoutMischief(SimPlan plan);

struct SimReport {
  std::string failure;            // description of the first failure; "": none
  std::vector<float> parameters;  // final values of all slices, then of all rows
  uint64_t trace_hash = 0;
  std::vector<std::string> trace;  // events of the job; empty without SimPlan::keep_trace
  int64_t pushes = 0;              // number of acknowledged pushes
  int64_t server_deaths = 0, trainer_deaths = 0, pauses = 0, cuts = 0;
  // Numbers of moved buckets, of processes that moved buckets, and of servers that left the job.
  int64_t moved = 0, movers = 0, retired = 0;
  // Numbers of global snapshots, and of restores from a global snapshot.
  int64_t cuts_taken = 0, restored = 0;
  int64_t member_cuts = 0;  // stored cuts of servers with standbys, of all members
  // For SimPlan::standbys only: numbers of promoted standbys, of lost disks, of primaries that ran
  // although the launcher believed that they had died, and of members that the launcher killed
  // because they did not reply.
  int64_t promotions = 0, disks = 0, stale = 0, hangs = 0;
  // For SimPlan::followers only: numbers of starts of followers with and without a token, of
  // changes that they received, of tombstones, of changes with whole row buckets, of versions of
  // global snapshots at which a follower was compared, and of starts of replicas.
  int64_t follows = 0, continued = 0, changes = 0, tombstones = 0, snapshots = 0, compared = 0;
  int64_t replicas = 0;
  int64_t rewinds = 0;  // number of restores of a global snapshot while the job ran
  int64_t jumps = 0;    // number of times that the clock of a server jumped
  // lost: number of pushes that servers report as lost because the trainer died, with
  // SimPlan::replayable. given_up: whether the job ended because a sync step needs a lost push, or,
  // with SimPlan::deaths_while_damaged, because too few members of a server have its state.
  uint64_t lost = 0;
  bool given_up = false;
  double seconds = 0;  // duration of the job in seconds of virtual time
};

// Runs the job to its end. After that, kills and restarts all servers and checks their state.
// Returns the report. These are failures: the value of a slot contradicts the fate of its push; in
// a_sync mode, parameters differ from the recorded order; a server does not restart; the job does
// not end.
SimReport RunJob(const SimPlan& plan);

}  // namespace tandem::pserver
