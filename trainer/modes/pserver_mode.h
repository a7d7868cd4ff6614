// mode=pserver: trainers push gradients to the pservers and pull parameters from them. The pservers
// run the optimizer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/graph/distribute/fragments.h"
#include "pserver/client/client.h"
#include "pserver/client/placement/partition.h"
#include "trainer/modes/common_options.h"
#include "trainer/modes/mode.h"
#include "trainer/ps/async_communicator.h"
#include "trainer/ps/row_file.h"

namespace tandem::trainer {

// Determines when the servers apply the gradients of a trainer, and how long the trainer waits.
enum class PsSyncMode : uint8_t {
  kSync,       // applies the gradients of all trainers once per step; every trainer waits
  kHalfAsync,  // applies gradients on arrival; a trainer waits for its own push and pull
  kASync,      // applies gradients on arrival; a trainer does not wait (async_communicator.h)
  // Trainers update local parameters, and exchange differences every geo_steps steps.
  kGeo,
  // Trainers update local parameters, and push pseudo-gradients of fragments every k_steps steps to
  // the servers, which run the outer optimizer (trainer/ps/local_steps.h).
  kLocalSteps
};

struct PserverOptions {
  CommonOptions common;
  std::vector<std::string> servers;  // addresses of the pservers, as host:port
  PsSyncMode regime = PsSyncMode::kSync;
  AsyncOptions async;     // options for kASync
  int64_t geo_steps = 0;  // kGeo: number of steps between two exchanges
  // Options for kLocalSteps, without begin_step and merge_factor.
  graph::FragmentRule local_steps;
  // kLocalSteps: number of pseudo-gradients of a step of the outer optimizer; at least 1
  int64_t quorum = 1;
  int64_t max_staleness = -1;  // kHalfAsync: steps by which trainers may differ; -1: no limit
  // The following options determine the calls to pservers (pserver/client/client.h).
  bool launch_barrier = true;
  bool rpc_profiler = false;  // records all calls to pservers
  int rpc_retries = 3;
  bool replaces = false;  // the launcher restarts unresponsive servers
  ps::PsTransport transport = ps::PsTransport::kAuto;
  bool split_messages = false;
  int64_t row_cache_bytes = 0;
  int64_t row_cache_versions = 0;
  // The following options determine how servers treat pushes and lost trainers.
  ps::PsNonfinite nonfinite = ps::PsNonfinite::kReject;
  Duration lost_after = std::chrono::seconds(900);
  double delay_compensation = 0;
  // A trainer continues after the steps that it has pushed, in all its incarnations. Not for kSync,
  // where the version of the parameters is the number of steps, and not with local updates.
  bool continues_steps = false;
  bool has_event_time = false;  // the data is a stream, whose records have times
  std::vector<RowFile> init;    // files with initial rows of tables
  // The following options determine the placement of parameters on servers.
  ps::PsDispatcher dispatcher = ps::PsDispatcher::kRoundRobin;
  bool slice_var_up = true;
  int64_t min_block_size = 8192;  // minimum size of a slice, in elements

  bool sync() const { return regime == PsSyncMode::kSync; }
  // Returns whether trainers run the optimizer on their own parameters.
  bool updates_locally() const {
    return regime == PsSyncMode::kGeo || regime == PsSyncMode::kLocalSteps;
  }
};

PserverOptions PserverOptionsOf(const JobConfig& config, const RankInfo& rank,
                                CommonOptions common);

TrainingMode MakePserverMode(const PserverOptions& options);

}  // namespace tandem::trainer
