#include <utility>

#include "collective/rendezvous.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include <boost/asio.hpp>

#include "absl/strings/str_join.h"
#include "collective/handshake.h"
#include "collective/reception.h"
#include "collective/waiter.h"
#include "common/base/check.h"

namespace tandem {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr Duration kBackoffMin = std::chrono::milliseconds(10);
constexpr Duration kBackoffMax = std::chrono::milliseconds(500);

Status FromCode(uint32_t code, const std::string& message) {
  const bool known = code > 0 && code <= static_cast<uint32_t>(StatusCode::kUnauthenticated);
  return Status(known ? static_cast<StatusCode>(code) : StatusCode::kUnknown, message);
}

// Over the list of ranks and the world's generation.
Mac MapMac(const std::string& secret, const Hello& hello, const Challenge& challenge,
           uint64_t generation, std::span<const std::byte> entries) {
  std::vector<std::byte> text(sizeof(generation) + entries.size());
  std::memcpy(text.data(), &generation, sizeof(generation));
  std::memcpy(text.data() + sizeof(generation), entries.data(), entries.size());
  return MacOf(secret, "map", hello, challenge, text);
}

uint64_t DrawGeneration() {
  const Nonce random = FreshNonce();
  uint64_t generation = 0;
  std::memcpy(&generation, random.data(), sizeof(generation));
  return generation | 1;  // 0 stands for none
}

// One rank's way into the world. Dials and listens on one io_context, so that nobody waits for
// somebody who waits for him.
class Join {
 public:
  explicit Join(const WorldConfig& config) : config_(config), listen_fd_(config.listen_fd) {}
  StatusOr<Mesh> Run();

 private:
  // A connection that has passed the handshake.
  struct Line {
    std::unique_ptr<tcp::socket> socket;
    Hello hello;
    Challenge challenge;
  };

  Status Check();
  Status Listen(const std::string& host, uint16_t port);
  Status Adopt();
  StatusOr<Mesh> RunFirst();
  StatusOr<Mesh> RunOther();
  Status Gather();
  void WatchFirst();
  Status SendMap();
  void SendNoMap(const Status& why);
  Status ReadMap(Line& line);

  // Dials until it is let in, is refused for good, or the time is over.
  StatusOr<Line> Enter(int peer, Channel channel);
  Status TryEnter(int peer, Channel channel, Time deadline, Line& line, bool& again);
  Status Greet(Channel channel, Time deadline, Line& line, bool& again);
  Status AwaitGuests(Channel channel);
  Status FillMesh(Mesh& mesh);

  const WorldConfig& config_;
  Fd listen_fd_;
  Waiter waiter_{config_};
  asio::io_context& io_ = waiter_.io();
  tcp::acceptor acceptor_{io_};
  std::unique_ptr<Reception> reception_;  // after what it uses
  HostPort door_;                         // where this rank listens
  HostPort first_;                        // where rank 0 does
  std::vector<HostPort> map_;
  uint64_t generation_ = 0;                       // 0: not known yet
  std::vector<Line> lines_control_, lines_data_;  // to the ranks below
};

Status Join::Check() {
  if (config_.size < 1 || config_.rank < 0 || config_.rank >= config_.size) {
    return InvalidArgument("rank %d of %d: the rank must be in [0, size)", config_.rank,
                           config_.size);
  }
  if (config_.size == 1) return OkStatus();
  if (config_.secret.empty()) {
    return InvalidArgument(
        "ranks that meet need a secret that all of them have, in a file named by "
        "TANDEM_SECRET_FILE; hint: openssl rand -hex 32 > job.secret; chmod 600 job.secret");
  }
  if (config_.job.size() > 63) {
    return InvalidArgument("job name \"%s\" is longer than 63 bytes", config_.job);
  }
  TD_ASSIGN_OR_RETURN(first_, ParseHostPort(config_.rendezvous));
  return OkStatus();
}

Status Join::Adopt() {
  const int fd = listen_fd_.get();
  sockaddr_storage address;
  socklen_t length = sizeof(address);
  Error error;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return InvalidArgument("listen_fd %d is not a socket: %s", fd, ErrnoText(errno));
  }
  acceptor_.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), fd, error);
  if (!error) listen_fd_.Release();
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) return Unavailable("cannot listen on listen_fd %d: %s", fd, error.message());
  return OkStatus();
}

// Puts the acceptor to work; `host` is also what is told to the others where the socket itself
// is bound to every address.
Status Join::Listen(const std::string& host, uint16_t port) {
  Error error;
  if (listen_fd_.valid()) {
    TD_RETURN_IF_ERROR(Adopt());
  } else {
    asio::ip::address address = asio::ip::make_address(host, error);
    if (error) {
      tcp::resolver resolver(io_);
      const auto found = resolver.resolve(host, "", tcp::resolver::passive, error);
      if (error || found.empty()) {
        return InvalidArgument("rank %d cannot listen on %s: unknown host (%s)", config_.rank, host,
                               error.message());
      }
      address = found.begin()->endpoint().address();
    }
    const tcp::endpoint endpoint(address, port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return Unavailable(
          "rank %d cannot listen on %s: %s; choose another port, or end the program "
          "that holds it",
          config_.rank, ToString(HostPort{host, port}), error.message());
    }
  }
  const tcp::endpoint bound = acceptor_.local_endpoint(error);
  if (error) return Unavailable("rank %d listens nowhere: %s", config_.rank, error.message());
  door_ = {bound.address().is_unspecified() ? host : bound.address().to_string(), bound.port()};
  reception_ = std::make_unique<Reception>(io_, acceptor_, config_);
  return OkStatus();
}

Status Join::AwaitGuests(Channel channel) {
  std::vector<int> missing = reception_->Missing(channel);
  while (!missing.empty()) {
    const std::string ranks = absl::StrJoin(missing, ", ");
    waiter_.WaitFor("rank " + ranks, missing);
    if (SteadyNow() >= waiter_.deadline()) {
      return DeadlineExceeded(
          "rank %d of %d at %s: rank %s did not come within %s; see their logs, and check that "
          "they were given this address",
          config_.rank, config_.size, ToString(door_), ranks, FormatDuration(config_.timeout));
    }
    waiter_.Look(waiter_.deadline());
    TD_RETURN_IF_ERROR(waiter_.end());
    // Who was told that all are there does not come again: it is dead.
    const bool all_told = config_.rank == 0 && generation_ != 0;
    if (const int left = all_told ? reception_->Left(Channel::kControl) : -1; left >= 0) {
      return Unavailable("rank %d left while the job started", left);
    }
    missing = reception_->Missing(channel);
  }
  waiter_.WaitFor("");
  return OkStatus();
}

StatusOr<Mesh> Join::Run() {
  TD_RETURN_IF_ERROR(Check());
  if (config_.size == 1)
    return Mesh{0, 1, 1, {config_.rendezvous}, std::vector<Fd>(1), std::vector<Fd>(1)};
  map_.resize(static_cast<size_t>(config_.size));
  lines_control_.resize(static_cast<size_t>(config_.rank));
  lines_data_.resize(static_cast<size_t>(config_.rank));
  return config_.rank == 0 ? RunFirst() : RunOther();
}

// Until all are there at once: who dies meanwhile may come again.
Status Join::Gather() {
  while (true) {
    TD_RETURN_IF_ERROR(AwaitGuests(Channel::kControl));
    const int left = reception_->Left(Channel::kControl);
    if (left < 0) return OkStatus();
    reception_->Forget(Channel::kControl, left);
  }
}

StatusOr<Mesh> Join::RunFirst() {
  TD_RETURN_IF_ERROR(Listen(first_.host, first_.port));
  const Status all = Gather();
  if (!all.ok()) {
    SendNoMap(all);
    return all;
  }
  waiter_.Within(config_.connect_timeout);
  generation_ = DrawGeneration();
  reception_->SetGeneration(generation_);
  TD_RETURN_IF_ERROR(SendMap());
  TD_RETURN_IF_ERROR(AwaitGuests(Channel::kData));
  Mesh mesh;
  TD_RETURN_IF_ERROR(FillMesh(mesh));
  return mesh;
}

// Rank 0 has nothing to say on this line any more, unless it gives the world up.
void Join::WatchFirst() {
  lines_control_[0].socket->async_wait(tcp::socket::wait_read, [this](const Error& error) {
    if (!error) waiter_.End(Unavailable("rank 0 gave up: a rank left while the job started"));
  });
}

StatusOr<Mesh> Join::RunOther() {
  map_[0] = first_;
  waiter_.WaitFor("rank 0 at " + ToString(first_), {0});
  TD_ASSIGN_OR_RETURN(lines_control_[0], Enter(0, Channel::kControl));
  waiter_.WaitFor("rank 0 at " + ToString(first_) + " to say that all ranks are there");
  TD_RETURN_IF_ERROR(ReadMap(lines_control_[0]));
  waiter_.Within(config_.connect_timeout);
  reception_->SetGeneration(generation_);
  WatchFirst();
  for (int peer = 0; peer < config_.rank; ++peer) {
    const size_t at = static_cast<size_t>(peer);
    waiter_.WaitFor(absl::StrFormat("rank %d at %s", peer, ToString(map_[at])));
    if (peer > 0) {
      TD_ASSIGN_OR_RETURN(lines_control_[at], Enter(peer, Channel::kControl));
    }
    TD_ASSIGN_OR_RETURN(lines_data_[at], Enter(peer, Channel::kData));
  }
  TD_RETURN_IF_ERROR(AwaitGuests(Channel::kControl));
  TD_RETURN_IF_ERROR(AwaitGuests(Channel::kData));
  Mesh mesh;
  TD_RETURN_IF_ERROR(FillMesh(mesh));
  return mesh;
}

Status Join::SendMap() {
  std::vector<MapEntry> entries(static_cast<size_t>(config_.size));
  for (int r = 0; r < config_.size; ++r) {
    HostPort where = first_;
    if (r > 0) {
      const Hello& hello = reception_->At(Channel::kControl, r).hello;
      where = {GetText(hello.host), static_cast<uint16_t>(hello.port)};
    }
    map_[static_cast<size_t>(r)] = where;
    PutText(where.host, entries[static_cast<size_t>(r)].host);
    entries[static_cast<size_t>(r)].port = where.port;
  }
  const auto bytes = std::as_bytes(std::span(entries));
  for (int r = 1; r < config_.size; ++r) {
    Reception::Seat& seat = reception_->At(Channel::kControl, r);
    MapHead head;
    head.count = static_cast<uint32_t>(config_.size);
    head.generation = generation_;
    head.mac = MapMac(config_.secret, seat.hello, seat.challenge, generation_, bytes);
    std::vector<std::byte> message(sizeof(head) + bytes.size());
    std::memcpy(message.data(), &head, sizeof(head));
    std::memcpy(message.data() + sizeof(head), bytes.data(), bytes.size());
    const Error error =
        waiter_.Write(*seat.socket, message.data(), message.size(), waiter_.deadline());
    if (error) {
      const Status lost = Unavailable("rank %d at %s left while the job started: %s", r,
                                      ToString(map_[static_cast<size_t>(r)]), error.message());
      SendNoMap(lost);
      return lost;
    }
  }
  return OkStatus();
}

// So that the others also say who is missing.
void Join::SendNoMap(const Status& why) {
  MapHead head;
  head.code = static_cast<uint32_t>(why.code());
  PutText(std::string(why.message()), head.text);
  for (int r = 1; r < config_.size; ++r) {
    Reception::Seat& seat = reception_->At(Channel::kControl, r);
    if (!seat.ready) continue;
    waiter_.Write(*seat.socket, &head, sizeof(head), SteadyNow() + config_.handshake_timeout);
  }
}

Status Join::ReadMap(Line& line) {
  MapHead head;
  // A little longer than rank 0 waits, whose answer names the missing ranks.
  const Time deadline = waiter_.deadline() + std::chrono::milliseconds(500);
  Error error = waiter_.Read(*line.socket, &head, sizeof(head), deadline);
  if (!error && head.code != 0) return FromCode(head.code, "rank 0 says: " + GetText(head.text));
  std::vector<MapEntry> entries(static_cast<size_t>(config_.size));
  if (!error && head.count != entries.size()) {
    return DataLoss("rank 0 at %s sent a list of %d ranks instead of %d", ToString(first_),
                    head.count, config_.size);
  }
  if (!error)
    error = waiter_.Read(*line.socket, entries.data(), entries.size() * sizeof(MapEntry), deadline);
  TD_RETURN_IF_ERROR(waiter_.end());
  if (error == asio::error::timed_out) {
    return DeadlineExceeded("rank %d of %d: rank 0 at %s did not say within %s that all are there",
                            config_.rank, config_.size, ToString(first_),
                            FormatDuration(config_.timeout));
  }
  if (error) {
    return Unavailable("rank %d of %d: rank 0 at %s left while the job started: %s", config_.rank,
                       config_.size, ToString(first_), error.message());
  }
  const Mac mac = MapMac(config_.secret, line.hello, line.challenge, head.generation,
                         std::as_bytes(std::span(entries)));
  if (!SameMac(mac, head.mac) || head.generation == 0) {
    return PermissionDenied("the list of ranks from %s is forged", ToString(first_));
  }
  generation_ = head.generation;
  for (int r = 1; r < config_.size; ++r) {
    const MapEntry& entry = entries[static_cast<size_t>(r)];
    map_[static_cast<size_t>(r)] = {GetText(entry.host), static_cast<uint16_t>(entry.port)};
  }
  return OkStatus();
}

StatusOr<Join::Line> Join::Enter(int peer, Channel channel) {
  Duration backoff = kBackoffMin;
  std::string reason = "no answer";
  while (true) {
    Line line;
    bool again = false;
    const Time deadline = std::min(waiter_.deadline(), SteadyNow() + config_.handshake_timeout);
    const Status status = TryEnter(peer, channel, deadline, line, again);
    if (status.ok()) return line;
    TD_RETURN_IF_ERROR(waiter_.end());
    const std::string whom =
        absl::StrFormat("rank %d at %s", peer, ToString(map_[static_cast<size_t>(peer)]));
    if (!again) {
      return Annotate(
          status, absl::StrFormat("rank %d of %d, joining %s", config_.rank, config_.size, whom));
    }
    // An attempt that the end of the time cut short says nothing.
    const bool over = SteadyNow() >= waiter_.deadline();
    if (!over) reason = std::string(status.message());
    if (over) {
      return DeadlineExceeded(
          "rank %d of %d: no way to %s within %s (%s); is it running, and is the address right?",
          config_.rank, config_.size, whom, FormatDuration(config_.timeout), reason);
    }
    waiter_.Pause(backoff);
    backoff = std::min(backoff * 2, kBackoffMax);
  }
}

Status Join::TryEnter(int peer, Channel channel, Time deadline, Line& line, bool& again) {
  again = true;
  const HostPort& where = map_[static_cast<size_t>(peer)];
  std::vector<tcp::endpoint> endpoints;
  Error error;
  const asio::ip::address address = asio::ip::make_address(where.host, error);
  if (!error) {
    endpoints.emplace_back(address, where.port);
  } else {
    tcp::resolver resolver(io_);
    for (const auto& found : resolver.resolve(where.host, "", error)) {
      endpoints.emplace_back(found.endpoint().address(), where.port);
    }
    if (endpoints.empty()) return Unavailable("unknown host: %s", error.message());
  }
  for (const tcp::endpoint& endpoint : endpoints) {
    line.socket = std::make_unique<tcp::socket>(io_);
    error = waiter_.Await([&](auto done) { line.socket->async_connect(endpoint, done); },
                          [&] { Waiter::Close(*line.socket); }, deadline);
    if (!error) break;
  }
  if (error) return Unavailable("%s", error.message());
  if (reception_ == nullptr) {
    const std::string local = line.socket->local_endpoint(error).address().to_string();
    again = false;
    TD_RETURN_IF_ERROR(Listen(config_.listen_host.empty() ? local : config_.listen_host, 0));
    if (door_.host == "0.0.0.0" || door_.host == "::") door_.host = local;
    again = true;
  }
  return Greet(channel, deadline, line, again);
}

Status Join::Greet(Channel channel, Time deadline, Line& line, bool& again) {
  Hello& hello = line.hello;
  hello.channel = static_cast<uint32_t>(channel);
  hello.rank = config_.rank;
  hello.size = config_.size;
  hello.port = door_.port;
  hello.generation = generation_;
  hello.nonce = FreshNonce();
  PutText(door_.host, hello.host);
  PutText(config_.job, hello.job);
  const auto broken = [&](const Error& error) {
    return Unavailable("the handshake broke off: %s", error.message());
  };
  Error error = waiter_.Write(*line.socket, &hello, sizeof(hello), deadline);
  if (!error) error = waiter_.Read(*line.socket, &line.challenge, sizeof(Greeting), deadline);
  if (error) return broken(error);
  again = false;
  TD_RETURN_IF_ERROR(CheckGreeting(line.challenge.greeting));
  again = true;
  Proof proof;
  Welcome welcome;
  error = waiter_.Read(*line.socket, &line.challenge.nonce, sizeof(Nonce), deadline);
  proof.mac = MacOf(config_.secret, "dialler", hello, line.challenge);
  if (!error) error = waiter_.Write(*line.socket, &proof, sizeof(proof), deadline);
  if (!error) error = waiter_.Read(*line.socket, &welcome, sizeof(welcome), deadline);
  if (error) return broken(error);
  again = false;
  if (welcome.code != 0) return FromCode(welcome.code, "refused: " + GetText(welcome.text));
  if (!SameMac(welcome.mac, MacOf(config_.secret, "listener", hello, line.challenge))) {
    return PermissionDenied("whoever listens there does not know the secret of job \"%s\"",
                            config_.job);
  }
  return OkStatus();
}

Status Join::FillMesh(Mesh& mesh) {
  mesh.rank = config_.rank;
  mesh.size = config_.size;
  mesh.generation = generation_;
  const size_t n = static_cast<size_t>(config_.size);
  mesh.control.resize(n);
  mesh.data.resize(n);
  const auto take = [](std::unique_ptr<tcp::socket>& socket, Fd& to) {
    Error error;
    socket->set_option(tcp::no_delay(true), error);
    if (!error) socket->set_option(asio::socket_base::keep_alive(true), error);
    if (!error) socket->native_non_blocking(true, error);
    if (!error) to = Fd(socket->release(error));
    return error ? Unavailable("a connection broke while the job started: %s", error.message())
                 : OkStatus();
  };
  for (int r = 0; r < config_.size; ++r) {
    const size_t at = static_cast<size_t>(r);
    if (r > config_.rank) {
      Reception::Seat& control = reception_->At(Channel::kControl, r);
      map_[at] = {GetText(control.hello.host), static_cast<uint16_t>(control.hello.port)};
      TD_RETURN_IF_ERROR(take(control.socket, mesh.control[at]));
      TD_RETURN_IF_ERROR(take(reception_->At(Channel::kData, r).socket, mesh.data[at]));
    } else if (r < config_.rank) {
      TD_RETURN_IF_ERROR(take(lines_control_[at].socket, mesh.control[at]));
      TD_RETURN_IF_ERROR(take(lines_data_[at].socket, mesh.data[at]));
    }
    mesh.hosts.push_back(ToString(r == config_.rank ? door_ : map_[at]));
  }
  return OkStatus();
}

}  // namespace

StatusOr<Mesh> JoinWorld(const WorldConfig& config) { return Join(config).Run(); }

}  // namespace tandem
