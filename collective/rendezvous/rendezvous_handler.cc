#include <utility>

#include "collective/rendezvous/local_address.h"
#include "collective/rendezvous/rendezvous_handler.h"

#include "common/base/endpoint.h"

namespace tandem::collective {
namespace {

constexpr Duration kAnnounceAgain = std::chrono::milliseconds(250);

}  // namespace

Status CheckNetwork(const WorldConfig& config, const std::string& host) {
  if (config.network_allowed || IsLoopback(Endpoint{host, 0})) return OkStatus();
  return PermissionDenied(
      "rendezvous at %s: the connections between hosts are not encrypted, which is not allowed "
      "[TD6002]; hint: set --tls_dir (tandem certs issue), or --insecure_allow_network in a "
      "trusted "
      "network",
      host);
}

Status RendezvousHandler::Prepare() {
  TD_ASSIGN_OR_RETURN(url_, ParseRendezvousUrl(config_.rendezvous));
  store_ = MakeRendezvousStore(url_, config_.job, config_.secret, config_.etcd);
  return OkStatus();
}

// Returns the host on which rank 0 listens if config.rendezvous has no address.
StatusOr<std::string> RendezvousHandler::Host() const {
  const std::string& host = config_.listen_host;
  if (host == "0.0.0.0" || host == "::") {
    return InvalidArgument(
        "rank 0 cannot announce %s, because other hosts cannot reach this address; hint: set "
        "--listen_host to one address of this host",
        host);
  }
  if (!host.empty()) return host;
  if (!config_.network_allowed) return "127.0.0.1";
  StatusOr<std::string> local = LocalAddressTowards(url_.address.host);
  if (local.ok()) return local;
  return InvalidArgument("rank 0 cannot determine its address: %s; hint: set --listen_host",
                         std::string(local.status().message()));
}

// Checks that `address` is allowed. An address in config.rendezvous (tcp) is always allowed.
Status RendezvousHandler::CheckNetwork(const HostPort& address) const {
  if (url_.kind == RendezvousUrl::Kind::kTcp) return OkStatus();
  return tandem::collective::CheckNetwork(config_, address.host);
}

Status RendezvousHandler::Open(Listener& listener, BlockingIoContext& waiter) {
  HostPort where = url_.address;
  if (url_.kind != RendezvousUrl::Kind::kTcp) {
    TD_ASSIGN_OR_RETURN(where.host, Host());
    where.port = 0;
  }
  TD_RETURN_IF_ERROR(CheckNetwork(where));
  TD_RETURN_IF_ERROR(listener.Open(where.host, where.port, where.host));
  Meeting meeting(listener.address());
  if (url_.kind != RendezvousUrl::Kind::kTcp) {
    meeting.meeting = FreshNonce();
    listener.reception().Expect(meeting.address, meeting.meeting);
  }
  return Announce(meeting, waiter);
}

Status RendezvousHandler::Announce(const Meeting& meeting, BlockingIoContext& waiter) {
  std::optional<Time> taken_at;  // time at which another rank 0 was first found in the store
  while (true) {
    Status status = store_->Announce(meeting, waiter.deadline());
    const bool taken = status.code() == StatusCode::kAlreadyExists;
    if (taken && !taken_at) taken_at = SteadyNow();
    // Rank 0 retries before `until`, because the entry in the store may be from an earlier rank 0
    // that died.
    const Time until = taken ? *taken_at + store_->lapse() + kAnnounceAgain : waiter.deadline();
    if ((!taken && status.code() != StatusCode::kUnavailable) || SteadyNow() >= until) {
      return status;
    }
    waiter.WaitFor(std::string(status.message()));
    waiter.Pause(kAnnounceAgain);
    TD_RETURN_IF_ERROR(waiter.end());
  }
}

StatusOr<Meeting> RendezvousHandler::Find(Time deadline, bool& again) {
  StatusOr<Meeting> found = store_->Find(deadline);
  const StatusCode code = found.status().code();
  again = code == StatusCode::kNotFound || code == StatusCode::kUnavailable;
  if (code == StatusCode::kPermissionDenied) {
    if (!denied_at_) denied_at_ = SteadyNow();
    // Before lapse() has passed, the announcement may belong to an earlier job that has died.
    again = SteadyNow() < *denied_at_ + store_->lapse();
  }
  TD_RETURN_IF_ERROR(found.status());
  TD_RETURN_IF_ERROR(CheckNetwork(found->address));
  return found;
}

}  // namespace tandem::collective
