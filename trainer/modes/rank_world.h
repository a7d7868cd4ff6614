// The world of the ranks that communicate with each other directly: its options, and helpers for
// collective calls.
#pragma once

#include <functional>
#include <string>

#include "collective/communicator.h"
#include "collective/rendezvous/rendezvous.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "trainer/modes/common_options.h"

namespace tandem::trainer {

struct WorldOptions {
  // The first three options are described at WorldConfig (collective/rendezvous/rendezvous.h).
  std::string rendezvous;
  std::string listen_host;
  bool network_allowed = false;
  // Transport between the ranks (collective/host/connect.h).
  collective::TransportKind transport = collective::TransportKind::kAuto;
};

WorldOptions WorldOptionsOf(const JobConfig& config, const RankInfo& rank);

// Returns the configuration with which this rank joins the world of the job. The rendezvous ends
// within start_timeout, or when `stop` returns true.
collective::WorldConfig WorldOf(const CommonOptions& common, const WorldOptions& options,
                                const std::function<bool()>& stop);

// Converts the loss of a connected peer to ABORTED (exit code 200), because a restart of the job
// can help. The status stays UNAVAILABLE if the service never replied. Other statuses are
// unchanged.
Status AsLostPeer(const Status& status);

// Returns whether `mine` is true on at least one rank. A collective call; it ends within
// `patience`.
StatusOr<bool> AnyRank(collective::Communicator& communicator, bool mine, Duration patience);

}  // namespace tandem::trainer
