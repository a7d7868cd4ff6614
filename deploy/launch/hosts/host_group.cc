#include "deploy/launch/hosts/host_group.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/require.h"
#include "common/os/ports.h"
#include "deploy/launch/options/endpoints.h"

namespace tandem::deploy {
namespace {

constexpr Duration kRetry = std::chrono::milliseconds(300);
constexpr Duration kRefusedEvery = std::chrono::seconds(1);  // messages about strangers
constexpr Duration kProgressEvery = std::chrono::seconds(2);
constexpr size_t kGuestsMax = 64;  // connections of which no tandemrun has joined yet

void PollUntil(std::vector<pollfd> fds, Time until) {
  const int64_t ms = Millis(until - SteadyNow()) + 1;
  ::poll(fds.data(), fds.size(), static_cast<int>(std::clamp<int64_t>(ms, 0, 1000)));
}

bool IsIpv4(const std::string& address) {
  in_addr numeric;
  return inet_pton(AF_INET, address.c_str(), &numeric) == 1;
}

pollfd Wanted(const HostLink& link) { return {link.fd(), link.events(), 0}; }

// Returns the first setting of `theirs` that differs from `ours`, such as "--nproc=1, the leading
// one with --nproc=2"; "": all are equal.
std::string Difference(const std::vector<std::string>& ours,
                       const std::vector<std::string>& theirs) {
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const std::string a = i < ours.size() ? ours[i] : "", b = i < theirs.size() ? theirs[i] : "";
    if (a != b) return absl::StrFormat("%s, the leading one with %s", b, a);
  }
  return "";
}

HostGroupOptions OneHost() {
  HostGroupOptions options;
  options.hosts = 1;
  options.meeting.secret = "no link uses this key";
  return options;
}

}  // namespace

HostGroup::HostGroup(HostGroupOptions options)
    : options_(std::move(options)),
      key_(LinkKey::Of(options_.meeting.job, options_.meeting.secret)),
      meeting_(options_.meeting) {
  layout_.hosts.resize(static_cast<size_t>(options_.hosts));
  peers_.resize(layout_.hosts.size());
}
HostGroup::HostGroup() : HostGroup(OneHost()) {}
HostGroup::~HostGroup() = default;

StatusOr<std::unique_ptr<HostGroup>> HostGroup::Join(HostGroupOptions options) {
  TD_REQUIRE(options.hosts > 1 && !options.meeting.secret.empty());
  TD_REQUIRE(options.progress != nullptr && options.kept < options.hosts);
  std::unique_ptr<HostGroup> group(new HostGroup(std::move(options)));
  const Time deadline = SteadyNow() + group->options_.timeout;
  TD_RETURN_IF_ERROR(group->Enter(deadline));
  return group;
}

std::string HostGroup::NameOf(int host) const {
  TD_REQUIRE(host >= 0 && static_cast<size_t>(host) < layout_.hosts.size());
  const JobHost& known = layout_.hosts[static_cast<size_t>(host)];
  return absl::StrFormat("host %d (%s at %s)", host, known.host, known.address);
}

void HostGroup::Progress(const std::string& text, Time deadline) {
  const Time now = SteadyNow();
  const Time began = deadline - options_.timeout;
  if (now < std::max(told_at_ + kProgressEvery, began + std::chrono::seconds(1))) return;
  told_at_ = now;
  options_.progress(absl::StrFormat("waiting for %s (%.0f s of %.0f s)", text, Seconds(now - began),
                                    Seconds(options_.timeout)));
}

// ---- The start ----------------------------------------------------------------------------------

Status HostGroup::Gather(Time deadline) {
  while (true) {
    std::vector<std::string> here;
    for (size_t i = 1; i < peers_.size(); ++i) {
      if (peers_[i].link != nullptr) here.push_back(layout_.hosts[i].host);
    }
    const size_t missing = peers_.size() - 1 - here.size();
    if (missing == 0) break;
    const Time now = SteadyNow();
    if (now >= deadline) {
      return DeadlineExceeded(
          "%d of %d hosts did not join at %s within %.0f s [TD3002]; hint: run the same command on "
          "each host; joined are %s",
          missing, peers_.size(), meeting_.name(), Seconds(options_.timeout),
          absl::StrJoin(here, ", ") + (here.empty() ? "none" : ""));
    }
    Progress(absl::StrFormat("%d of %d hosts at %s", missing, peers_.size(), meeting_.name()),
             deadline);
    PollUntil(Sockets(), std::min(deadline, now + kRetry));
    AcceptGuests(SteadyNow());
    StepGuests(SteadyNow());
    for (Peer& peer : peers_) {
      if (peer.link != nullptr && !peer.link->Step(SteadyNow()).ok()) peer = Peer();
    }
  }
  // The name of the leading host may mean another address to each host, such as 127.0.1.1.
  for (const Peer& peer : peers_) {
    JobHost& self = layout_.hosts[0];
    if (options_.numeric && peer.link != nullptr && !IsIpv4(self.address)) {
      self.address = peer.link->LocalAddress();
    }
  }
  AssignNumbers();
  if (options_.make_certificates != nullptr) {
    TD_ASSIGN_OR_RETURN(layout_.certificates, options_.make_certificates(layout_.hosts));
  }
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].link != nullptr) SendLayout(static_cast<int>(i), /*replaces=*/false);
  }
  Flush(SteadyNow() + options_.silence);
  return OkStatus();
}

void HostGroup::AssignNumbers() {
  TD_REQUIRE(leads() && layout_.number == 0);
  const size_t count = peers_.size();
  peers_[0].kept = options_.kept;
  std::vector<JobHost> hosts(count);
  std::vector<Peer> peers(count);
  std::set<size_t> free;
  for (size_t i = 0; i < count; ++i) free.insert(i);
  for (const Peer& peer : peers_) {
    if (peer.kept >= 0) free.erase(static_cast<size_t>(peer.kept));
  }
  for (size_t i = 0; i < count; ++i) {
    const bool kept = peers_[i].kept >= 0;
    const size_t number = kept ? static_cast<size_t>(peers_[i].kept) : *free.begin();
    if (!kept) free.erase(free.begin());
    if (i == 0) layout_.number = layout_.leader = static_cast<int>(number);
    hosts[number] = std::move(layout_.hosts[i]);
    peers[number] = std::move(peers_[i]);
  }
  layout_.hosts = std::move(hosts);
  peers_ = std::move(peers);
}

void HostGroup::SendLayout(int number, bool replaces) {
  TD_REQUIRE(leads() && number != layout_.number);
  TD_REQUIRE(number >= 0 && static_cast<size_t>(number) < peers_.size());
  HostLayout layout = layout_;
  layout.number = number;
  layout.replaces = replaces;
  peers_[static_cast<size_t>(number)].link->Send(Encode(layout));
}

Status HostGroup::Enter(Time deadline) {
  TD_ASSIGN_OR_RETURN(ports_, ReservePorts("0.0.0.0", options_.ports));
  while (true) {
    TD_ASSIGN_OR_RETURN(const bool leads, meeting_.TryToLead());
    if (leads) {
      JobHost self{HostName(), meeting_.own_address(), 0};
      self.first_port = ports_.first;
      layout_.hosts[0] = std::move(self);
      return Gather(deadline);
    }
    StatusOr<std::optional<HostLayout>> layout = Ask(deadline);
    TD_RETURN_IF_ERROR(layout.status());
    if (*layout) {
      const auto is_number = [&](int number) {
        return number >= 0 && static_cast<size_t>(number) < layout_.hosts.size();
      };
      if ((*layout)->hosts.size() != layout_.hosts.size() || !is_number((*layout)->number) ||
          !is_number((*layout)->leader) || (*layout)->number == (*layout)->leader) {
        return DataLoss("the leading tandemrun sent a list of %d hosts, expected %d",
                        (*layout)->hosts.size(), layout_.hosts.size());
      }
      layout_ = **std::move(layout);
      return OkStatus();
    }
    if (SteadyNow() >= deadline) {
      return DeadlineExceeded(
          "no tandemrun leads the job at %s within %.0f s (%s) [TD3002]; hint: run the same "
          "command on each host, also on the one that --rendezvous names",
          options_.meeting.rendezvous, Seconds(options_.timeout), reason_);
    }
    Progress("the tandemrun that leads the job at " + options_.meeting.rendezvous, deadline);
    PollUntil({}, std::min(deadline, SteadyNow() + kRetry));
  }
}

// Asks the leading tandemrun for the layout of the job. nullopt: another attempt may succeed.
StatusOr<std::optional<HostLayout>> HostGroup::Ask(Time deadline) {
  StatusOr<Fd> socket = meeting_.Dial(deadline);
  if (!socket.ok()) {
    const StatusCode code = socket.status().code();
    if (code != StatusCode::kNotFound && code != StatusCode::kUnavailable) return socket.status();
    reason_ = std::string(socket.status().message());
    return std::nullopt;
  }
  leader_ = std::make_unique<HostLink>(*std::move(socket), HostLink::Side::kDialler, key_,
                                       options_.silence, SteadyNow());
  bool asked = false;
  while (true) {
    const Time now = SteadyNow();
    if (now >= deadline) return std::nullopt;
    const Status status = leader_->Step(now);
    while (const std::optional<std::string> frame = leader_->Take()) {
      const StatusOr<HostMessage> message = DecodeHostMessage(*frame);
      TD_RETURN_IF_ERROR(message.status());
      if (const auto* refusal = std::get_if<HostRefusal>(&*message)) {
        reason_ = refusal->text;
        leader_ = nullptr;
        // The leading host may have to notice first that the host with this number is lost, or that
        // this host has left.
        const bool later = refusal->code == StatusCode::kUnavailable ||
                           (options_.again && refusal->code == StatusCode::kAlreadyExists);
        if (later) return std::nullopt;
        return Status(refusal->code, refusal->text);
      }
      if (const auto* layout = std::get_if<HostLayout>(&*message)) return *layout;
    }
    if (!status.ok()) {
      leader_ = nullptr;
      reason_ = std::string(status.message());
      if (status.code() != StatusCode::kPermissionDenied) return std::nullopt;
      return Annotate(status, "the tandemrun at " + options_.meeting.rendezvous);
    }
    if (leader_->established() && !std::exchange(asked, true)) {
      HostJoin join{kHostProtocol,
                    options_.version,
                    {HostName(), options_.meeting.listen_host, ports_.first},
                    options_.settings,
                    options_.kept};
      leader_->Send(Encode(join));
      continue;
    }
    Progress("other hosts at " + options_.meeting.rendezvous, deadline);
    PollUntil({Wanted(*leader_)}, std::min({deadline, leader_->wakeup(), now + kRetry}));
  }
}

// ---- The leading host ---------------------------------------------------------------------------

void HostGroup::AcceptGuests(Time now) {
  while (meeting_.listener().valid() && guests_.size() < kGuestsMax) {
    Fd socket(::accept4(meeting_.listener().get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    guests_.push_back(std::make_unique<HostLink>(std::move(socket), HostLink::Side::kListener, key_,
                                                 options_.silence, now));
  }
}

void HostGroup::StepGuests(Time now) {
  for (std::unique_ptr<HostLink>& guest : guests_) {
    const Status status = guest->Step(now);
    const std::optional<std::string> frame = guest->Take();
    if (frame) {
      const StatusOr<HostMessage> message = DecodeHostMessage(*frame);
      const auto* join = message.ok() ? std::get_if<HostJoin>(&*message) : nullptr;
      if (join != nullptr) {
        const Status refusal = Welcome(guest, *join);
        if (guest == nullptr) continue;
        if (refusal.code() != StatusCode::kUnavailable) {
          options_.progress(absl::StrFormat("the tandemrun of %s is refused: %s", join->host.host,
                                            std::string(refusal.message())));
        }
        guest->Send(Encode(HostRefusal{refusal.code(), std::string(refusal.message())}));
        guest->Step(now).IgnoreError();
        continue;  // the refused tandemrun closes the connection
      }
    }
    if (!status.ok()) {
      if (status.code() == StatusCode::kPermissionDenied && now >= refused_at_ + kRefusedEvery) {
        refused_at_ = now;
        options_.progress(absl::StrFormat("a program at %s is refused: %s", guest->PeerAddress(),
                                          std::string(status.message())));
      }
      guest = nullptr;
    }
  }
  std::erase(guests_, nullptr);
}

Status HostGroup::CheckKept(const HostJoin& join) const {
  if (join.kept < 0) return OkStatus();
  const auto has = [&join](const Peer& peer) { return peer.kept == join.kept; };
  const bool free = director_ != nullptr
                        ? director_->MayReplace(join.kept)
                        : join.kept != options_.kept && std::ranges::none_of(peers_, has);
  if (free && static_cast<size_t>(join.kept) < peers_.size()) return OkStatus();
  // The host may be lost, and not noticed yet. Then the other tandemrun tries again.
  return Unavailable(
      "%s has the pservers' data of host %d of an earlier run, but the job has this host [TD3015]; "
      "hint: stop the tandemrun of the other host with these data",
      join.host.host, join.kept);
}

Status HostGroup::Welcome(std::unique_ptr<HostLink>& link, const HostJoin& join) {
  if (join.protocol != kHostProtocol) {
    return FailedPrecondition(
        "%s has version %s of Tandem, and the leading host has %s [TD3013]; hint: install the same "
        "version of Tandem on all hosts",
        join.host.host, join.version, options_.version);
  }
  if (const std::string other = Difference(options_.settings, join.settings); !other.empty()) {
    return FailedPrecondition(
        "%s runs tandemrun with %s [TD3015]; hint: run the same command on each host",
        join.host.host, other);
  }
  TD_RETURN_IF_ERROR(CheckKept(join));
  const bool runs = director_ != nullptr;
  std::string needed;  // address of a lost host that no host with another address can replace
  JobHost host = join.host;
  if (host.address.empty()) host.address = link->PeerAddress();
  if (options_.numeric && !IsIpv4(host.address)) {
    return InvalidArgument(
        "a job with standbys needs the IPv4 address of each host, but %s has --listen_host=%s "
        "[TD1009]; hint: set --listen_host to the IPv4 address of the host",
        join.host.host, host.address);
  }
  std::optional<size_t> place;
  for (size_t i = 0; i < peers_.size(); ++i) {
    const int number = static_cast<int>(i);
    if (number == layout_.number || peers_[i].link != nullptr) continue;
    if (runs && (!director_->MayReplace(number) || (join.kept >= 0 && join.kept != number))) {
      continue;
    }
    const bool same = runs && host.address == layout_.hosts[i].address;
    if (runs && !same && director_->NeedsAddress(number)) {
      needed = layout_.hosts[i].address;
    } else if (same || !place) {
      place = i;
    }
    if (same) break;
  }
  if (place) {
    const auto number = static_cast<int>(*place);
    if (runs && host.address == layout_.hosts[*place].address) {
      host.first_port = layout_.hosts[*place].first_port;  // the other hosts know these ports
    }
    Peer& peer = peers_[*place];
    if (!runs) options_.progress(host.host + " at " + host.address + " has joined");
    layout_.hosts[*place] = std::move(host);
    peer.link = std::move(link);
    peer.left = false;
    peer.kept = join.kept;
    if (runs) {
      SendLayout(number, /*replaces=*/true);
      director_->AddHost(number, NameOf(number));
    }
    return OkStatus();
  }
  if (!needed.empty()) {
    return FailedPrecondition(
        "a lost host at %s has pservers, so the host that replaces it needs the same address, but "
        "%s has another one [TD3015]; hint: run tandemrun on a host with this address, or give the "
        "address to this host and set --listen_host=%s",
        needed, join.host.host, needed);
  }
  return AlreadyExists(
      "the job has all its %d hosts [TD3008]; hint: stop the other tandemrun, or use another "
      "rendezvous",
      peers_.size());
}

void HostGroup::Begin(JobDirector::Settings settings) {
  TD_REQUIRE(director_ == nullptr);
  if (!leads()) return;
  director_ = std::make_unique<JobDirector>(std::move(settings));
}

std::vector<JobOrder> HostGroup::Lead(Time now) {
  TD_REQUIRE(director_ != nullptr);
  AcceptGuests(now);
  StepGuests(now);
  for (size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    if (peer.link == nullptr) continue;  // also this host
    const int number = static_cast<int>(i);
    Status status = peer.link->Step(now);
    while (const std::optional<std::string> frame = peer.link->Take()) {
      const StatusOr<HostMessage> message = DecodeHostMessage(*frame);
      if (!message.ok()) status = message.status();
      if (!message.ok()) break;
      const auto* refusal = std::get_if<HostRefusal>(&*message);
      if (refusal != nullptr) status = Status(refusal->code, refusal->text);
      if (refusal != nullptr) break;
      if (std::holds_alternative<HostGoodbye>(*message)) {
        peer.left = true;
        director_->HostLeft(number);
      }
      if (const auto* report = std::get_if<JobReport>(&*message)) {
        director_->Take(number, *report, now);
      }
    }
    if (status.ok()) continue;
    peer.link = nullptr;
    if (!peer.left && !over_) {
      director_->LoseHost(number, NameOf(number), std::string(status.message()), now);
    }
  }
  director_->Step(now);
  std::vector<JobOrder> mine;
  for (AddressedOrder& order : director_->TakeOrders()) {
    for (size_t i = 0; i < peers_.size(); ++i) {
      const int number = static_cast<int>(i);
      const bool meant = order.to == AddressedOrder::kAll || order.to == number;
      if (!meant || order.except == number) continue;
      if (number == layout_.number) {
        mine.push_back(order.order);
      } else if (peers_[i].link != nullptr) {
        peers_[i].link->Send(Encode(order.order));
      }
    }
  }
  for (Peer& peer : peers_) {
    // Sends the orders now. The next call of Lead handles an error.
    if (peer.link != nullptr) peer.link->Step(now).IgnoreError();
  }
  return mine;
}

// ---- The other hosts ----------------------------------------------------------------------------

std::vector<JobOrder> HostGroup::Obey(Time now) {
  std::vector<JobOrder> orders;
  if (leader_ == nullptr) return orders;
  bool failed = false;  // true: the leading host has told why it ends
  Status status = leader_->Step(now);
  while (const std::optional<std::string> frame = leader_->Take()) {
    const StatusOr<HostMessage> message = DecodeHostMessage(*frame);
    if (!message.ok()) status = message.status();
    if (!message.ok()) break;
    const auto* refusal = std::get_if<HostRefusal>(&*message);
    failed = failed || refusal != nullptr;
    if (refusal != nullptr) status = Status(refusal->code, refusal->text);
    if (refusal != nullptr) break;
    const auto* order = std::get_if<JobOrder>(&*message);
    if (order == nullptr) continue;
    // The leading host may leave after one of these orders. Before, its end is a loss.
    using Kind = JobOrder::Kind;
    over_ = over_ || order->kind == Kind::kFinish || order->kind == Kind::kFailed ||
            order->kind == Kind::kRelease;
    orders.push_back(*order);
  }
  if (status.ok()) return orders;
  leader_ = nullptr;
  if (over_) return orders;
  lost_leader_ = !failed;
  Failure failure;
  failure.role = "host";
  failure.rank = layout_.leader;
  failure.host = NameOf(layout_.leader);
  failure.exit.code = kExitLostPeer;
  failure.text = std::string(status.message()) + "; it leads the job";
  orders.push_back({.kind = JobOrder::Kind::kFailed, .failure = failure});
  orders.push_back({.kind = JobOrder::Kind::kFinish});
  return orders;
}

// ---- All hosts ----------------------------------------------------------------------------------

void HostGroup::Report(const JobReport& report) {
  if (director_ != nullptr) return director_->Take(layout_.number, report, SteadyNow());
  if (leader_ != nullptr) leader_->Send(Encode(report));
}

std::vector<JobOrder> HostGroup::Step(Time now) { return leads() ? Lead(now) : Obey(now); }

std::vector<pollfd> HostGroup::Sockets() const {
  std::vector<pollfd> fds;
  if (meeting_.listener().valid() && guests_.size() < kGuestsMax) {
    fds.push_back({meeting_.listener().get(), POLLIN, 0});
  }
  for (const auto& guest : guests_) fds.push_back(Wanted(*guest));
  for (HostLink* const link : Links()) fds.push_back(Wanted(*link));
  return fds;
}

Time HostGroup::wakeup() const {
  Time at = director_ != nullptr ? director_->wakeup() : Time::max();
  for (const auto& guest : guests_) at = std::min(at, guest->wakeup());
  for (HostLink* const link : Links()) at = std::min(at, link->wakeup());
  return at;
}

std::vector<HostLink*> HostGroup::Links() const {
  std::vector<HostLink*> links;
  if (leader_ != nullptr) links.push_back(leader_.get());
  for (const Peer& peer : peers_) {
    if (peer.link != nullptr) links.push_back(peer.link.get());
  }
  return links;
}

void HostGroup::Flush(Time deadline) {
  while (SteadyNow() < deadline) {
    std::vector<pollfd> fds;
    for (HostLink* const link : Links()) {
      if (link->Step(SteadyNow()).ok() && !link->all_sent()) fds.push_back(Wanted(*link));
    }
    if (fds.empty()) return;
    PollUntil(std::move(fds), deadline);
  }
}

void HostGroup::Fail(const Status& why, Duration most) {
  TD_REQUIRE(!why.ok() && director_ == nullptr);
  const HostRefusal refusal{why.code(),
                            "its processes cannot start: " + std::string(why.message())};
  for (HostLink* const link : Links()) link->Send(Encode(refusal));
  Leave(most);
}

void HostGroup::Leave(Duration most) {
  over_ = true;
  const std::vector<HostLink*> links = Links();
  for (HostLink* const link : links) link->Send(Encode(HostGoodbye()));
  const Time deadline = SteadyNow() + most;
  Flush(deadline);
  // A socket that is closed with unread bytes would take the last messages back. So this host reads
  // until the others have closed their ends.
  for (HostLink* const link : links) link->SendNoMore();
  while (SteadyNow() < deadline) {
    std::vector<pollfd> fds;
    for (HostLink* const link : links) {
      if (link->Step(SteadyNow()).ok()) fds.push_back(Wanted(*link));
    }
    if (fds.empty()) return;
    PollUntil(std::move(fds), deadline);
  }
}

}  // namespace tandem::deploy
