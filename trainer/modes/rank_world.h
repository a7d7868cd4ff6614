// The world of the ranks that communicate with each other directly: options for the world, and
// helpers for collective calls.
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
  // WorldConfig (collective/rendezvous/rendezvous.h) describes the first four options.
  std::string rendezvous;
  std::string listen_host;
  collective::EtcdAccess etcd;
  bool network_allowed = false;
  // Transport between the ranks (collective/host/connect.h).
  collective::TransportKind transport = collective::TransportKind::kAuto;
  std::string lease_file;  // common/launcher/launcher_lease.h; empty: the job is on one host
};

WorldOptions WorldOptionsOf(const JobConfig& config, const RankInfo& rank);

// Rejects communication over a network unless it is encrypted or rank.network_allowed is set. With
// `tls` the ranks encrypt their connections. NCCL does not encrypt, so devices on several hosts
// need rank.network_allowed also with TLS. Without TLS the ranks prove to each other that they know
// the secret, and authenticate their messages. Returns a warning for the user; "": there is no
// warning. PERMISSION_DENIED: the rendezvous is not on this host. INVALID_ARGUMENT: the address of
// the rendezvous is malformed. JoinWorld checks the files of `tls`.
StatusOr<std::string> CheckNetwork(const JobConfig& config, const RankInfo& rank,
                                   const rpc::TlsFiles& tls);

// Returns the configuration with which this rank joins the world of the job. The rendezvous ends
// within start_timeout, or when `stop` returns true.
collective::WorldConfig WorldOf(const CommonOptions& common, const WorldOptions& options,
                                const std::function<bool()>& stop);

// Converts UNAVAILABLE to ABORTED (exit code 200), because a restart of the job can help. Returns
// other statuses unchanged. `status` must be the result of a call to connected peers, where
// UNAVAILABLE means the loss of a peer.
Status AsLostPeer(const Status& status);

// Returns whether `mine` is true on at least one rank. A collective call: all ranks must make the
// call. Blocks for at most `patience`.
StatusOr<bool> AnyRank(collective::Communicator& communicator, bool mine, Duration patience);

}  // namespace tandem::trainer
