// mode=pserver: trainers push gradients to the pservers, which run the optimizer, and pull
// parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pserver/client/client.h"
#include "pserver/client/placement/partition.h"
#include "trainer/modes/common_options.h"
#include "trainer/modes/mode.h"
#include "trainer/ps/async_communicator.h"

namespace tandem::trainer {

// When the servers apply a trainer's gradients, and what a trainer waits for.
enum class PsSyncMode : uint8_t {
  kSync,       // once per step, after the gradients of all trainers arrived; every trainer waits
  kHalfAsync,  // immediately; a trainer waits for its own push and pull
  kASync,      // immediately; a trainer does not wait (async_communicator.h)
  kGeo         // trainers update local parameters and exchange differences every k steps
};

struct PserverOptions {
  CommonOptions common;
  std::vector<std::string> servers;  // host:port
  PsSyncMode regime = PsSyncMode::kSync;
  AsyncOptions async;          // for kASync
  int64_t geo_steps = 0;       // for kGeo: steps between two exchanges
  int64_t max_staleness = -1;  // for kHalfAsync; -1: no bound
  // For calls (pserver/client/client.h):
  bool launch_barrier = true;
  bool rpc_profiler = false;  // calls are recorded
  int rpc_retries = 3;
  bool replaces = false;  // the launcher restarts unresponsive servers
  ps::PsTransport transport = ps::PsTransport::kAuto;
  bool split_messages = false;
  int64_t row_cache_bytes = 0;
  int64_t row_cache_versions = 0;
  // For the servers' treatment of pushes and trainers:
  ps::PsNonfinite nonfinite = ps::PsNonfinite::kReject;
  Duration lost_after = std::chrono::seconds(900);
  double delay_compensation = 0;
  // For the placement of parameters on servers:
  ps::PsDispatcher dispatcher = ps::PsDispatcher::kRoundRobin;
  bool slice_var_up = true;
  int64_t min_block_size = 8192;  // elements

  bool sync() const { return regime == PsSyncMode::kSync; }
  bool geo() const { return regime == PsSyncMode::kGeo; }
};

PserverOptions PserverOptionsOf(const JobConfig& config, const RankInfo& rank,
                                CommonOptions common);

TrainingMode MakePserverMode(const PserverOptions& options);

}  // namespace tandem::trainer
