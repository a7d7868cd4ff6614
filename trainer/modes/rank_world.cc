#include "trainer/modes/rank_world.h"

#include "absl/strings/str_format.h"
#include "collective/rendezvous/rendezvous_url.h"
#include "common/base/endpoint.h"
#include "common/base/require.h"
#include "common/launcher/launcher_lease.h"
#include "proto/job.pb.h"

namespace tandem::trainer {
namespace {

collective::TransportKind TransportKindOf(DistributedStrategy::CollectiveTransport transport) {
  switch (transport) {
    case DistributedStrategy::Auto:
      return collective::TransportKind::kAuto;
    case DistributedStrategy::Tcp:
      return collective::TransportKind::kTcp;
    case DistributedStrategy::Shm:
      return collective::TransportKind::kSharedMemory;
  }
  return collective::TransportKind::kAuto;
}

}  // namespace

WorldOptions WorldOptionsOf(const JobConfig& config, const RankInfo& rank) {
  return {.rendezvous = rank.rendezvous,
          .listen_host = rank.listen_host,
          .etcd = rank.etcd,
          .network_allowed = rank.network_allowed,
          .transport = TransportKindOf(config.strategy().collective_transport()),
          .lease_file = rank.lease_file};
}

StatusOr<std::string> CheckNetwork(const JobConfig& config, const RankInfo& rank,
                                   const rpc::TlsFiles& tls) {
  const bool meets = config.mode() == COLLECTIVE || config.mode() == HYBRID;
  if (!meets || rank.size == 1 || rank.rendezvous.empty()) return std::string();
  TD_ASSIGN_OR_RETURN(const collective::RendezvousUrl url,
                      collective::ParseRendezvousUrl(rank.rendezvous));
  const bool has_address = url.kind == collective::RendezvousUrl::Kind::kTcp;
  if (has_address && IsLoopback(Endpoint{url.address.host, url.address.port})) return std::string();
  const bool by_nccl = config.place() != "cpu";
  if (tls.mutual() && !by_nccl) return std::string();
  if (rank.network_allowed) {
    return absl::StrFormat("the ranks that meet at %s exchange gradients without encryption%s",
                           rank.rendezvous, tls.mutual() ? ", because NCCL does not encrypt" : "");
  }
  // Without TLS, JoinWorld then uses only addresses of this host.
  if (!has_address && !tls.mutual()) return std::string();
  return PermissionDenied(
      "rendezvous at %s: the connections between hosts are not encrypted%s, which is not allowed "
      "[TD6002]; hint: set %s--insecure_allow_network in a trusted network "
      "(docs/project/threat-model.md)",
      rank.rendezvous, tls.mutual() ? " by NCCL" : "",
      tls.mutual() ? "" : "--tls_dir (tandem certs issue), or ");
}

collective::WorldConfig WorldOf(const CommonOptions& common, const WorldOptions& options,
                                const std::function<bool()>& stop) {
  TD_REQUIRE(common.rank >= 0 && common.rank < common.ranks);
  collective::WorldConfig world;
  world.job = common.job;
  world.rank = common.rank;
  world.size = common.ranks;
  world.secret = common.secrets.job;
  world.rendezvous = options.rendezvous;
  world.listen_host = options.listen_host;
  world.etcd = options.etcd;
  world.tls = common.secrets.tls;
  world.network_allowed = options.network_allowed || world.tls.mutual();
  world.timeout = common.start_timeout;
  world.stop = stop;
  // A host is lost for its peers after the same time as for tandemrun.
  if (!options.lease_file.empty()) {
    const StatusOr<LauncherLease> lease = ReadLease(options.lease_file);
    if (lease.ok()) world.host_timeout = lease->limit;
  }
  return world;
}

Status AsLostPeer(const Status& status) {
  if (status.code() != StatusCode::kUnavailable) return status;
  return Aborted("%s", std::string(status.message()));
}

StatusOr<bool> AnyRank(collective::Communicator& communicator, bool mine, Duration patience) {
  int32_t any = mine ? 1 : 0;
  TD_RETURN_IF_ERROR(AsLostPeer(
      communicator
          .AllReduce(&any, &any, 1, DType::kI32, ReduceOp::kMax, {.what = "whether to stop"})
          ->Wait(SteadyNow() + patience)));
  return any != 0;
}

}  // namespace tandem::trainer
