#include "deploy/launch/hosts/host_meeting.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "collective/rendezvous/local_address.h"
#include "collective/rendezvous/rendezvous_url.h"
#include "common/base/require.h"
#include "common/os/ports.h"
#include "deploy/launch/options/endpoints.h"

namespace tandem::deploy {
namespace {

using UrlKind = collective::RendezvousUrl::Kind;

constexpr int kBacklog = 128;
constexpr Duration kStoreMax = std::chrono::seconds(5);  // time limit for one access to the store

struct AddressInfo {
  AddressInfo(const std::string& host, int port) {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  }
  ~AddressInfo() {
    if (list != nullptr) freeaddrinfo(list);
  }
  AddressInfo(const AddressInfo&) = delete;
  AddressInfo& operator=(const AddressInfo&) = delete;
  addrinfo* list = nullptr;
  int error = 0;
};

std::string TextOf(const addrinfo& info) {
  char text[NI_MAXHOST] = "";
  getnameinfo(info.ai_addr, info.ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

// Returns whether `host`, a name or an address, is this machine. Asks the name service.
bool IsThisHost(const std::string& host) {
  if (IsLocalHost(host)) return true;
  const AddressInfo info(host, 0);
  return info.error == 0 && info.list != nullptr && IsLocalHost(TextOf(*info.list));
}

}  // namespace

StatusOr<bool> HostMeeting::TryToLead() {
  TD_REQUIRE(!listener_.valid());
  TD_ASSIGN_OR_RETURN(const collective::RendezvousUrl url,
                      collective::ParseRendezvousUrl(options_.rendezvous));
  const bool known = url.kind == UrlKind::kTcp;
  if (known && !IsThisHost(url.address.host)) return false;
  std::string host = url.address.host;  // on which the leading tandemrun listens
  if (!known && !options_.listen_host.empty()) host = options_.listen_host;
  if (!known && options_.listen_host.empty()) {
    TD_ASSIGN_OR_RETURN(host, collective::LocalAddressTowards(url.address.host));
  }
  StatusOr<Fd> bound = BindPort(host, known ? url.address.port : 0);
  // Another program may use the known port: the leading tandemrun, or one with which the handshake
  // fails.
  if (!bound.ok() && known) return false;
  TD_RETURN_IF_ERROR(bound.status());
  Fd listener = *std::move(bound);
  sockaddr_in local{};
  socklen_t size = sizeof(local);
  if (::listen(listener.get(), kBacklog) != 0 ||
      ::fcntl(listener.get(), F_SETFL, O_NONBLOCK) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) {
    if (known) return false;
    return Unavailable("cannot listen on %s: %s [TD3009]", host, ErrnoText(errno));
  }
  const collective::HostPort address{host, ntohs(local.sin_port)};
  if (store_ == nullptr) {
    store_ = collective::MakeRendezvousStore(url, options_.job + ".hosts", options_.secret,
                                             options_.etcd);
  }
  const Status announced = store_->Announce(collective::Meeting(address), SteadyNow() + kStoreMax);
  if (announced.code() == StatusCode::kAlreadyExists ||
      announced.code() == StatusCode::kUnavailable) {
    return false;  // Dial says why
  }
  TD_RETURN_IF_ERROR(announced);
  listener_ = std::move(listener);
  name_ = collective::ToString(address);
  own_address_ = options_.listen_host.empty() ? host : options_.listen_host;
  return true;
}

StatusOr<Fd> HostMeeting::Dial(Time deadline) {
  TD_ASSIGN_OR_RETURN(const collective::RendezvousUrl url,
                      collective::ParseRendezvousUrl(options_.rendezvous));
  collective::HostPort to = url.address;
  if (url.kind != UrlKind::kTcp) {
    TD_REQUIRE(store_ != nullptr);
    TD_ASSIGN_OR_RETURN(const collective::Meeting found,
                        store_->Find(std::min(deadline, SteadyNow() + kStoreMax)));
    to = found.address;
  }
  const AddressInfo info(to.host, to.port);
  if (info.error != 0 || info.list == nullptr) {
    return Unavailable("%s has no address: %s", to.host, gai_strerror(info.error));
  }
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), info.list->ai_addr, info.list->ai_addrlen) != 0 &&
      errno != EINPROGRESS) {
    return Unavailable("cannot connect to %s: %s", collective::ToString(to), ErrnoText(errno));
  }
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return socket;
}

}  // namespace tandem::deploy
