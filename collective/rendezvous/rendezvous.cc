#include <utility>

#include "collective/rendezvous/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <boost/asio.hpp>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_join.h"
#include "collective/rendezvous/dial.h"
#include "collective/rendezvous/listener.h"
#include "collective/rendezvous/mesh_tls.h"
#include "collective/rendezvous/rendezvous_handler.h"
#include "common/base/check.h"

namespace tandem::collective {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr Duration kBackoffMin = std::chrono::milliseconds(10);
constexpr Duration kBackoffMax = std::chrono::milliseconds(500);

// Returns the MAC of the list of ranks and of the number of the rendezvous round.
Mac MapMac(const std::string& secret, const Hello& hello, const Challenge& challenge,
           uint64_t generation, std::span<const std::byte> entries) {
  std::vector<std::byte> text(sizeof(generation) + entries.size());
  std::memcpy(text.data(), &generation, sizeof(generation));
  std::memcpy(text.data() + sizeof(generation), entries.data(), entries.size());
  return MacOf(secret, "map", hello, challenge, text);
}

Status GaveUp() {
  return Unavailable(
      "rank 0 stopped the start of the job, because a rank was lost [TD3005]; hint: look at the "
      "log of rank 0");
}

uint64_t DrawGeneration() {
  const Nonce random = FreshNonce();
  uint64_t generation = 0;
  std::memcpy(&generation, random.data(), sizeof(generation));
  return generation | 1;  // the round is never 0, because 0 means none
}

// The rendezvous of one rank. It connects and accepts on one io_context, so that two ranks that
// connect to each other cannot deadlock.
class RendezvousSession {
 public:
  explicit RendezvousSession(const WorldConfig& config) : config_(config) {}
  StatusOr<Mesh> Run();

 private:
  Status Check();
  StatusOr<Mesh> RunFirst();
  StatusOr<Mesh> RunOther();
  Status Gather();
  void WatchFirst();
  Status SendMap();
  void SendNoMap(const Status& why);
  Status ReadMap(PeerConnection& line);

  // Connects to `peer`. Retries until `peer` accepts or permanently rejects it, or until the
  // deadline.
  StatusOr<PeerConnection> Enter(int peer, Channel channel);
  Status TryEnter(int peer, Channel channel, Time deadline, PeerConnection& line, bool& again);
  Status AwaitGuests(Channel channel);
  // Waits until `missing` returns an empty list. `late` is the predicate for error messages about
  // these ranks, such as "did not join".
  Status AwaitRanks(absl::FunctionRef<std::vector<int>()> missing, const char* late);
  // Confirm among all ranks that every pair of ranks is connected. After that a rank may leave,
  // even if JoinWorld has not returned on other ranks.
  Status AgreeFirst();
  Status AgreeOther(tcp::socket& line);
  Status FillMesh(Mesh& mesh);
  std::string Named(int peer) const;
  HandshakeAcceptor& reception() { return listener_.reception(); }

  const WorldConfig& config_;
  RendezvousHandler point_{config_};
  BlockingIoContext waiter_{config_};
  Listener listener_{config_, waiter_.io()};  // declared after the members that it uses
  std::vector<HostPort> map_;  // address of each rank; for rank 0 it is set when rank 0 is found
  Meeting meeting_;            // address and nonce of rank 0, set when rank 0 is found
  uint64_t generation_ = 0;    // number of the rendezvous round; 0: not known yet
  std::shared_ptr<const TlsContext> tls_;                   // null: the ranks use no TLS
  std::vector<PeerConnection> lines_control_, lines_data_;  // connections to lower ranks
};

Status RendezvousSession::Check() {
  if (config_.size < 1 || config_.rank < 0 || config_.rank >= config_.size) {
    return InvalidArgument(
        "rank %d is out of range: the job has %d ranks, which count from 0 [TD1013]", config_.rank,
        config_.size);
  }
  if (config_.size == 1) return OkStatus();
  if (config_.secret.empty()) {
    return InvalidArgument(
        "the ranks have no secret: TANDEM_SECRET_FILE is not set [TD6013]; hint: create a secret "
        "with openssl rand -hex 32 > job.secret and chmod 600 job.secret, and set "
        "TANDEM_SECRET_FILE=job.secret");
  }
  if (config_.job.size() > 63) {
    return InvalidArgument("job name \"%s\" is longer than 63 bytes [TD1011]", config_.job);
  }
  if (!config_.listen_host.empty()) {
    TD_RETURN_IF_ERROR(CheckNetwork(config_, config_.listen_host));
  }
  if (config_.tls.enabled()) {
    TD_ASSIGN_OR_RETURN(tls_, TlsContext::Load(config_.tls, config_.job));
  }
  return point_.Prepare();
}

std::string RendezvousSession::Named(int peer) const {
  const HostPort& where = map_[static_cast<size_t>(peer)];
  const bool found = where.port != 0;  // false if rank 0 is not found yet
  return absl::StrFormat("rank %d at %s", peer, found ? ToString(where) : point_.name());
}

Status RendezvousSession::AwaitGuests(Channel channel) {
  return AwaitRanks([&] { return reception().Missing(channel); }, "did not join");
}

Status RendezvousSession::AwaitRanks(absl::FunctionRef<std::vector<int>()> missing,
                                     const char* late) {
  for (std::vector<int> ranks = missing(); !ranks.empty(); ranks = missing()) {
    const std::string names = absl::StrJoin(ranks, ", ");
    waiter_.WaitFor("rank " + names, ranks);
    if (SteadyNow() >= waiter_.deadline()) {
      return DeadlineExceeded(
          "rank %d of %d at %s: rank %s %s within %s [TD3002]; hint: read the logs of these ranks, "
          "and check that these ranks use this address",
          config_.rank, config_.size, ToString(listener_.address()), names, late,
          FormatDuration(config_.timeout));
    }
    waiter_.Look(waiter_.deadline());
    TD_RETURN_IF_ERROR(waiter_.end());
    // A rank that has received the rank table does not join again. If such a rank closes its
    // connection, the rank has died or given up.
    const bool all_told = config_.rank == 0 && generation_ != 0;
    if (const int left = all_told ? reception().Left(Channel::kControl) : -1; left >= 0) {
      return Unavailable("rank %d was lost while the job started [TD3005]; hint: look at its log",
                         left);
    }
  }
  waiter_.WaitFor("");
  return OkStatus();
}

StatusOr<Mesh> RendezvousSession::Run() {
  TD_RETURN_IF_ERROR(Check());
  if (config_.size == 1)
    return Mesh{
        0, 1, 1, {config_.rendezvous}, std::vector<SealedSocket>(1), std::vector<SealedSocket>(1)};
  map_.resize(static_cast<size_t>(config_.size));
  lines_control_.resize(static_cast<size_t>(config_.rank));
  lines_data_.resize(static_cast<size_t>(config_.rank));
  return config_.rank == 0 ? RunFirst() : RunOther();
}

// Waits until all ranks are connected to rank 0 at the same time. Until then, a rank that has died
// may join again.
Status RendezvousSession::Gather() {
  while (true) {
    TD_RETURN_IF_ERROR(AwaitGuests(Channel::kControl));
    const int left = reception().Left(Channel::kControl);
    if (left < 0) return OkStatus();
    reception().Forget(Channel::kControl, left);
  }
}

StatusOr<Mesh> RendezvousSession::RunFirst() {
  TD_RETURN_IF_ERROR(point_.Open(listener_, waiter_));
  const Status all = Gather();
  if (!all.ok()) {
    SendNoMap(all);
    return all;
  }
  waiter_.Within(config_.connect_timeout);
  generation_ = DrawGeneration();
  reception().SetGeneration(generation_);
  TD_RETURN_IF_ERROR(SendMap());
  TD_RETURN_IF_ERROR(AwaitGuests(Channel::kData));
  TD_RETURN_IF_ERROR(AgreeFirst());
  Mesh mesh;
  TD_RETURN_IF_ERROR(FillMesh(mesh));
  LOG_EVERY_T(INFO, 1.0) << "all " << config_.size << " ranks of job \"" << config_.job
                         << "\" have joined";
  return mesh;
}

// Watches the control connection to rank 0. Rank 0 sends on it only if the rendezvous has failed.
void RendezvousSession::WatchFirst() {
  lines_control_[0].socket->async_wait(tcp::socket::wait_read, [this](const Error& error) {
    if (!error) waiter_.End(GaveUp());
  });
}

StatusOr<Mesh> RendezvousSession::RunOther() {
  waiter_.WaitFor(Named(0), {0});
  TD_ASSIGN_OR_RETURN(lines_control_[0], Enter(0, Channel::kControl));
  waiter_.WaitFor(Named(0) + " to confirm that all ranks have joined");
  TD_RETURN_IF_ERROR(ReadMap(lines_control_[0]));
  waiter_.Within(config_.connect_timeout);
  reception().SetGeneration(generation_);
  WatchFirst();
  for (int peer = 0; peer < config_.rank; ++peer) {
    const size_t at = static_cast<size_t>(peer);
    waiter_.WaitFor(Named(peer));
    if (peer > 0) {
      TD_ASSIGN_OR_RETURN(lines_control_[at], Enter(peer, Channel::kControl));
    }
    TD_ASSIGN_OR_RETURN(lines_data_[at], Enter(peer, Channel::kData));
  }
  TD_RETURN_IF_ERROR(AwaitGuests(Channel::kControl));
  TD_RETURN_IF_ERROR(AwaitGuests(Channel::kData));
  TD_RETURN_IF_ERROR(AgreeOther(*lines_control_[0].socket));
  Mesh mesh;
  TD_RETURN_IF_ERROR(FillMesh(mesh));
  return mesh;
}

Status RendezvousSession::AgreeFirst() {
  for (int r = 1; r < config_.size; ++r) {  // bytes from a rank must end the wait in Look
    reception()
        .At(Channel::kControl, r)
        .socket->async_wait(tcp::socket::wait_read, [](const Error&) {});
  }
  TD_RETURN_IF_ERROR(AwaitRanks([&] { return reception().Silent(Channel::kControl); },
                                "is not connected to all others"));
  for (int r = 1; r < config_.size; ++r) {
    tcp::socket& line = *reception().At(Channel::kControl, r).socket;
    char word = 0;
    Error error = waiter_.Read(line, &word, sizeof(word), waiter_.deadline());
    if (!error) error = waiter_.Write(line, &word, sizeof(word), waiter_.deadline());
    if (error) {
      return Unavailable(
          "rank %d was lost while the job started: %s [TD3005]; hint: look at its log", r,
          error.message());
    }
  }
  return OkStatus();
}

Status RendezvousSession::AgreeOther(tcp::socket& line) {
  Error error;
  line.cancel(error);  // ends the wait that WatchFirst has started
  waiter_.WaitFor(Named(0) + " to confirm that all ranks are connected");
  char word = 1;
  error = waiter_.Write(line, &word, sizeof(word), waiter_.deadline());
  if (!error) error = waiter_.Read(line, &word, sizeof(word), waiter_.deadline());
  TD_RETURN_IF_ERROR(waiter_.end());
  if (!error) return OkStatus();
  if (error != asio::error::timed_out) return GaveUp();
  return DeadlineExceeded(
      "rank %d of %d: %s did not confirm within %s that all ranks are connected [TD3002]; hint: "
      "read the log of rank 0",
      config_.rank, config_.size, Named(0), FormatDuration(config_.timeout));
}

Status RendezvousSession::SendMap() {
  std::vector<RankTableEntry> entries(static_cast<size_t>(config_.size));
  for (int r = 0; r < config_.size; ++r) {
    HostPort where = listener_.address();
    if (r > 0) {
      const Hello& hello = reception().At(Channel::kControl, r).hello;
      where = {GetText(hello.host), static_cast<uint16_t>(hello.port)};
    }
    map_[static_cast<size_t>(r)] = where;
    PutText(where.host, entries[static_cast<size_t>(r)].host);
    entries[static_cast<size_t>(r)].port = where.port;
  }
  const auto bytes = std::as_bytes(std::span(entries));
  for (int r = 1; r < config_.size; ++r) {
    HandshakeAcceptor::Seat& seat = reception().At(Channel::kControl, r);
    RankTableHeader head;
    head.count = static_cast<uint32_t>(config_.size);
    head.generation = generation_;
    head.mac = MapMac(config_.secret, seat.hello, seat.challenge, generation_, bytes);
    std::vector<std::byte> message(sizeof(head) + bytes.size());
    std::memcpy(message.data(), &head, sizeof(head));
    std::memcpy(message.data() + sizeof(head), bytes.data(), bytes.size());
    const Error error =
        waiter_.Write(*seat.socket, message.data(), message.size(), waiter_.deadline());
    if (error) {
      Status lost = Unavailable(
          "rank %d at %s was lost while the job started: %s [TD3005]; hint: look at its log", r,
          ToString(map_[static_cast<size_t>(r)]), error.message());
      SendNoMap(lost);
      return lost;
    }
  }
  return OkStatus();
}

// Sends the failure to all connected ranks, so that their error messages also name the missing
// ranks.
void RendezvousSession::SendNoMap(const Status& why) {
  RankTableHeader head;
  head.code = static_cast<uint32_t>(why.code());
  PutText(std::string(why.message()), head.text);
  for (int r = 1; r < config_.size; ++r) {
    HandshakeAcceptor::Seat& seat = reception().At(Channel::kControl, r);
    if (!seat.ready) continue;
    waiter_.Write(*seat.socket, &head, sizeof(head), SteadyNow() + config_.handshake_timeout);
  }
}

Status RendezvousSession::ReadMap(PeerConnection& line) {
  RankTableHeader head;
  // Waits a little longer than rank 0 does, because the reply of rank 0 names the missing ranks.
  const Time deadline = waiter_.deadline() + std::chrono::milliseconds(500);
  Error error = waiter_.Read(*line.socket, &head, sizeof(head), deadline);
  if (!error && head.code != 0) return FromCode(head.code, "rank 0 reports: " + GetText(head.text));
  std::vector<RankTableEntry> entries(static_cast<size_t>(config_.size));
  if (!error && head.count != entries.size()) {
    return DataLoss("rank 0 at %s sent a list of %d ranks, expected %d", ToString(map_[0]),
                    head.count, config_.size);
  }
  if (!error)
    error = waiter_.Read(*line.socket, entries.data(), entries.size() * sizeof(RankTableEntry),
                         deadline);
  TD_RETURN_IF_ERROR(waiter_.end());
  if (error == asio::error::timed_out) {
    return DeadlineExceeded(
        "rank %d of %d: rank 0 at %s did not confirm within %s that all ranks have joined "
        "[TD3002]; hint: read the log of rank 0",
        config_.rank, config_.size, ToString(map_[0]), FormatDuration(config_.timeout));
  }
  if (error) {
    return Unavailable(
        "rank %d of %d: rank 0 at %s was lost while the job started: %s [TD3005]; hint: look at "
        "the log of rank 0",
        config_.rank, config_.size, ToString(map_[0]), error.message());
  }
  const Mac mac = MapMac(config_.secret, line.hello, line.challenge, head.generation,
                         std::as_bytes(std::span(entries)));
  if (!SameMac(mac, head.mac) || head.generation == 0) {
    return PermissionDenied(
        "the list of ranks from %s has a wrong signature [TD6025]; hint: look for a program that "
        "relays connections between these hosts",
        ToString(map_[0]));
  }
  generation_ = head.generation;
  for (int r = 1; r < config_.size; ++r) {
    const RankTableEntry& entry = entries[static_cast<size_t>(r)];
    map_[static_cast<size_t>(r)] = {GetText(entry.host), static_cast<uint16_t>(entry.port)};
  }
  return OkStatus();
}

StatusOr<PeerConnection> RendezvousSession::Enter(int peer, Channel channel) {
  Duration backoff = kBackoffMin;
  std::string reason = "no reply";
  while (true) {
    PeerConnection line;
    bool again = false;
    const Time deadline = std::min(waiter_.deadline(), SteadyNow() + config_.handshake_timeout);
    const Status status = TryEnter(peer, channel, deadline, line, again);
    if (status.ok()) return line;
    TD_RETURN_IF_ERROR(waiter_.end());
    if (!again) {
      return Annotate(status, absl::StrFormat("rank %d of %d, joining %s", config_.rank,
                                              config_.size, Named(peer)));
    }
    // If the deadline ended the last attempt, the error has the reason of the attempt before the
    // last one.
    const bool over = SteadyNow() >= waiter_.deadline();
    if (!over) reason = std::string(status.message());
    if (over) {
      return DeadlineExceeded(
          "rank %d of %d cannot reach %s within %s (%s) [TD3001]; hint: check that this peer runs, "
          "and that its address is right",
          config_.rank, config_.size, Named(peer), FormatDuration(config_.timeout), reason);
    }
    waiter_.Pause(backoff);
    backoff = std::min(backoff * 2, kBackoffMax);
  }
}

Status RendezvousSession::TryEnter(int peer, Channel channel, Time deadline, PeerConnection& line,
                                   bool& again) {
  // As long as the number of the rendezvous round is unknown, each attempt looks up the address of
  // rank 0 again.
  if (peer == 0 && generation_ == 0) {
    const StatusOr<Meeting> found = point_.Find(deadline, again);
    meeting_ = found.ok() ? *found : Meeting();
    map_[0] = meeting_.address;
    waiter_.WaitFor(Named(0), {0});
    TD_RETURN_IF_ERROR(found.status());
  }
  again = true;
  TD_ASSIGN_OR_RETURN(line.socket, DialPeer(waiter_, map_[static_cast<size_t>(peer)], deadline));
  if (!listener_.is_open()) {
    Error error;
    const std::string local = line.socket->local_endpoint(error).address().to_string();
    again = false;
    TD_RETURN_IF_ERROR(
        listener_.Open(config_.listen_host.empty() ? local : config_.listen_host, 0, local));
    reception().Expect(listener_.address(), {});
  }
  line.hello.channel = static_cast<uint32_t>(channel);
  line.hello.rank = config_.rank;
  line.hello.size = config_.size;
  line.hello.port = listener_.address().port;
  line.hello.generation = generation_;
  line.hello.nonce = FreshNonce();
  line.hello.to_rank = peer;
  line.hello.tls = tls_ != nullptr ? 1 : 0;
  if (peer == 0) line.hello.meeting = meeting_.meeting;
  constexpr Nonce no_nonce = {};
  // If the nonce is 0, the address of rank 0 is from the configuration, and Hello does not contain
  // it.
  if (peer > 0 || meeting_.meeting != no_nonce) {
    const HostPort& to = map_[static_cast<size_t>(peer)];
    PutText(to.host, line.hello.to_host);
    line.hello.to_port = to.port;
  }
  PutText(listener_.address().host, line.hello.host);
  PutText(config_.job, line.hello.job);
  return Greet(waiter_, config_.secret, deadline, line, again);
}

Status RendezvousSession::FillMesh(Mesh& mesh) {
  mesh.rank = config_.rank;
  mesh.size = config_.size;
  mesh.generation = generation_;
  const size_t n = static_cast<size_t>(config_.size);
  mesh.control.resize(n);
  mesh.data.resize(n);
  MeshTls tls(tls_, waiter_.deadline(), config_.stop);
  const auto take = [&](auto& line, int peer, bool dialled, SealedSocket& to) {
    tcp::socket& socket = *line.socket;
    Error error;
    socket.set_option(tcp::no_delay(true), error);
    if (!error) socket.set_option(asio::socket_base::keep_alive(true), error);
    if (!error) socket.native_non_blocking(true, error);
    Fd fd = error ? Fd() : Fd(socket.release(error));
    if (error) {
      return Unavailable(
          "a connection broke while the job started: %s [TD3005]; hint: look at the logs of the "
          "other ranks",
          error.message());
    }
    const SessionKeys keys = KeysOf(config_.secret, line.hello, line.challenge, dialled);
    if (tls_ == nullptr) {
      to = SealedSocket(std::move(fd), keys);
    } else {
      tls.Add({std::move(fd), dialled, keys, Named(peer), &to});
    }
    return OkStatus();
  };
  for (int r = 0; r < config_.size; ++r) {
    const size_t at = static_cast<size_t>(r);
    if (r > config_.rank) {
      HandshakeAcceptor::Seat& control = reception().At(Channel::kControl, r);
      HandshakeAcceptor::Seat& data = reception().At(Channel::kData, r);
      map_[at] = {GetText(control.hello.host), static_cast<uint16_t>(control.hello.port)};
      TD_RETURN_IF_ERROR(take(control, r, false, mesh.control[at]));
      TD_RETURN_IF_ERROR(take(data, r, false, mesh.data[at]));
    } else if (r < config_.rank) {
      PeerConnection &control = lines_control_[at], &data = lines_data_[at];
      TD_RETURN_IF_ERROR(take(control, r, true, mesh.control[at]));
      TD_RETURN_IF_ERROR(take(data, r, true, mesh.data[at]));
    }
    mesh.hosts.push_back(ToString(r == config_.rank ? listener_.address() : map_[at]));
  }
  return Annotate(tls.Start(), absl::StrFormat("rank %d of %d, TLS", config_.rank, config_.size));
}

}  // namespace

StatusOr<Mesh> JoinWorld(const WorldConfig& config) { return RendezvousSession(config).Run(); }

}  // namespace tandem::collective
