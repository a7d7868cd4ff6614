#include <utility>

#include "collective/rendezvous/handshake_acceptor.h"

#include <sys/socket.h>

#include <cerrno>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::collective {

namespace asio = boost::asio;
using Error = boost::system::error_code;

namespace {
constexpr Duration kAcceptRetry = std::chrono::milliseconds(50);
}

struct HandshakeAcceptor::PendingConnection {
  PendingConnection(Tcp::socket s, asio::io_context& io) : socket(std::move(s)), timer(io) {}
  Tcp::socket socket;
  asio::steady_timer timer;
  std::string from;  // address of the peer, such as "10.0.0.3:4711"
  Hello hello;
  Challenge challenge;
  Proof proof;
  Welcome welcome;
};

HandshakeAcceptor::HandshakeAcceptor(asio::io_context& io, Tcp::acceptor& acceptor,
                                     const WorldConfig& config)
    : io_(io),
      acceptor_(acceptor),
      config_(config),
      retry_(io),
      control_(static_cast<size_t>(config.size)),
      data_(static_cast<size_t>(config.size)) {
  TD_REQUIRE(acceptor.is_open() && config.rank >= 0 && config.rank < config.size);
  Accept();
}

HandshakeAcceptor::~HandshakeAcceptor() {
  closed_ = true;
  Error ignored;
  acceptor_.close(ignored);
  retry_.cancel();
  for (const GuestPtr& guest : guests_) {
    guest->socket.close(ignored);
    guest->timer.cancel();
  }
  // All pending handlers must run before the destruction ends, because the handlers use this
  // object.
  io_.restart();
  io_.run();
}

std::vector<int> HandshakeAcceptor::Missing(Channel channel) const {
  std::vector<int> missing;
  const auto& seats = channel == Channel::kControl ? control_ : data_;
  for (int r = config_.rank + 1; r < config_.size; ++r) {
    if (!seats[static_cast<size_t>(r)].ready) missing.push_back(r);
  }
  return missing;
}

namespace {
// Returns whether the peer has closed the connection.
bool HasLeft(HandshakeAcceptor::Tcp::socket& socket) {
  char byte;
  const ssize_t n = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}
}  // namespace

int HandshakeAcceptor::Left(Channel channel) const {
  const auto& seats = channel == Channel::kControl ? control_ : data_;
  for (int r = config_.rank + 1; r < config_.size; ++r) {
    const Seat& seat = seats[static_cast<size_t>(r)];
    if (seat.ready && HasLeft(*seat.socket)) return r;
  }
  return -1;
}

std::vector<int> HandshakeAcceptor::Silent(Channel channel) const {
  std::vector<int> silent;
  const auto& seats = channel == Channel::kControl ? control_ : data_;
  for (int r = config_.rank + 1; r < config_.size; ++r) {
    Error ignored;
    TD_REQUIRE(seats[static_cast<size_t>(r)].socket != nullptr);
    if (seats[static_cast<size_t>(r)].socket->available(ignored) == 0) silent.push_back(r);
  }
  return silent;
}

void HandshakeAcceptor::SetGeneration(uint64_t generation) {
  generation_ = generation;
  for (const Channel channel : {Channel::kControl, Channel::kData}) {
    // Rank 0 sends the number of the round over its control connections, so they need no check.
    if (config_.rank == 0 && channel == Channel::kControl) continue;
    for (int r = config_.rank + 1; r < config_.size; ++r) {
      const Seat& seat = At(channel, r);
      if (seat.socket != nullptr && seat.hello.generation != generation) Forget(channel, r);
    }
  }
}

void HandshakeAcceptor::Accept() {
  acceptor_.async_accept([this](const Error& error, Tcp::socket socket) {
    if (closed_ || error == asio::error::operation_aborted) return;
    if (error) {
      // The process may have no free file descriptors. So this rank closes the oldest unproven
      // connection, and accepts again after a short time.
      LOG_EVERY_T(WARNING, 1.0) << "cannot accept a connection: " << error.message();
      if (!guests_.empty()) Drop(guests_.front(), "this process has no free descriptors");
      retry_.expires_at(SteadyNow() + kAcceptRetry);
      retry_.async_wait([this](const Error&) {
        if (!closed_) Accept();
      });
      return;
    }
    Arrived(std::move(socket));
    Accept();
  });
}

void HandshakeAcceptor::Arrived(Tcp::socket socket) {
  auto guest = std::make_shared<PendingConnection>(std::move(socket), io_);
  Error error;
  const auto from = guest->socket.remote_endpoint(error);
  guest->from =
      error ? "an unknown address" : ToString(HostPort{from.address().to_string(), from.port()});
  if (guests_.size() >= static_cast<size_t>(config_.guests_max)) {
    Drop(guests_.front(), "too many connections have not identified themselves");
  }
  guests_.push_back(guest);
  guest->timer.expires_at(SteadyNow() + config_.handshake_timeout);
  guest->timer.async_wait([this, guest](const Error& e) {
    if (!e && !closed_) Drop(guest, "the caller did not identify itself in time");
  });
  ReadGreeting(guest);
}

void HandshakeAcceptor::Drop(const GuestPtr& guest, const std::string& why) {
  Error ignored;
  guest->timer.cancel();
  if (guest->socket.is_open() && !closed_) {
    ++refused_;
    LOG_EVERY_T(WARNING, 1.0) << "rank " << config_.rank << " rejected a connection from "
                              << guest->from << ": " << why << " (" << refused_
                              << " rejected so far)";
  }
  guest->socket.close(ignored);
  guests_.remove(guest);
}

void HandshakeAcceptor::ReadGreeting(const GuestPtr& guest) {
  asio::async_read(guest->socket, asio::buffer(&guest->hello.greeting, sizeof(Greeting)),
                   [this, guest](const Error& error, size_t) {
                     if (closed_) return;
                     if (error)
                       return Drop(guest,
                                   "the caller closed the connection before it identified itself");
                     const Status status = CheckGreeting(guest->hello.greeting);
                     if (!status.ok()) return AnswerOther(guest, status);
                     ReadHello(guest);
                   });
}

// Replies to a peer with another version of the handshake. The reply contains the version of this
// rank, so that the peer's error message can name both versions.
void HandshakeAcceptor::AnswerOther(const GuestPtr& guest, const Status& why) {
  if (why.code() != StatusCode::kFailedPrecondition) {
    return Drop(guest, std::string(why.message()));
  }
  asio::async_write(guest->socket, asio::buffer(&guest->challenge, sizeof(Challenge)),
                    [this, guest, why](const Error& error, size_t) {
                      if (closed_) return;
                      if (error) return Drop(guest, std::string(why.message()));
                      Drain(guest, why);
                    });
}

// Reads until the peer closes the connection. If this rank closed a connection with unread bytes,
// the reply could be lost.
void HandshakeAcceptor::Drain(const GuestPtr& guest, const Status& why) {
  guest->socket.async_read_some(asio::buffer(&guest->proof, sizeof(Proof)),
                                [this, guest, why](const Error& error, size_t) {
                                  if (closed_) return;
                                  if (error) return Drop(guest, std::string(why.message()));
                                  Drain(guest, why);
                                });
}

void HandshakeAcceptor::ReadHello(const GuestPtr& guest) {
  auto* const rest = reinterpret_cast<char*>(&guest->hello) + sizeof(Greeting);
  asio::async_read(
      guest->socket, asio::buffer(rest, sizeof(Hello) - sizeof(Greeting)),
      [this, guest](const Error& error, size_t) {
        if (closed_) return;
        if (error)
          return Drop(guest, "the caller closed the connection before it identified itself");
        guest->challenge.nonce = FreshNonce();
        asio::async_write(guest->socket, asio::buffer(&guest->challenge, sizeof(Challenge)),
                          [this, guest](const Error& e, size_t) {
                            if (closed_) return;
                            if (e)
                              return Drop(guest,
                                          "the caller closed the connection during the handshake");
                            ReadProof(guest);
                          });
      });
}

void HandshakeAcceptor::ReadProof(const GuestPtr& guest) {
  asio::async_read(guest->socket, asio::buffer(&guest->proof, sizeof(Proof)),
                   [this, guest](const Error& error, size_t) {
                     if (closed_) return;
                     if (error)
                       return Drop(guest, "the caller closed the connection during the handshake");
                     Judge(guest);
                   });
}

void HandshakeAcceptor::Judge(const GuestPtr& guest) {
  const Mac expected = MacOf(config_.secret, "dialler", guest->hello, guest->challenge);
  const Status verdict = SameMac(expected, guest->proof.mac)
                             ? Admit(guest->hello)
                             : PermissionDenied(
                                   "the secret of the caller for job \"%s\" differs from the "
                                   "secret of this rank [TD6014]; hint: "
                                   "copy one secret file to all hosts",
                                   config_.job);
  if (!verdict.ok()) return Refuse(guest, verdict);
  guest->welcome.mac = MacOf(config_.secret, "listener", guest->hello, guest->challenge);
  Seat& seat = At(static_cast<Channel>(guest->hello.channel), guest->hello.rank);
  seat.socket = std::make_unique<Tcp::socket>(std::move(guest->socket));
  seat.hello = guest->hello;
  seat.challenge = guest->challenge;
  guest->timer.cancel();
  guests_.remove(guest);
  Tcp::socket* const socket = seat.socket.get();
  asio::async_write(*socket, asio::buffer(&guest->welcome, sizeof(Welcome)),
                    [this, guest, socket, &seat](const Error& error, size_t) {
                      if (closed_ || seat.socket.get() != socket) return;
                      seat.ready = !error;
                      if (error) seat.socket.reset();
                    });
}

Status HandshakeAcceptor::Admit(const Hello& hello) {
  const std::string job = GetText(hello.job);
  if (job != config_.job) {
    return FailedPrecondition(
        "this is job \"%s\", but the caller is of job \"%s\" [TD3007]; hint: use another port for "
        "one of the jobs",
        config_.job, job);
  }
  if (hello.size != config_.size) {
    return FailedPrecondition(
        "this job has %d ranks, but the caller expects %d [TD3007]; hint: use the same number of "
        "ranks on all hosts",
        config_.size, hello.size);
  }
  if (hello.rank <= config_.rank || hello.rank >= config_.size) {
    return FailedPrecondition(
        "rank %d must not connect here: only ranks %d to %d connect to rank %d", hello.rank,
        config_.rank + 1, config_.size - 1, config_.rank);
  }
  TD_RETURN_IF_ERROR(CheckAim(hello));
  if ((hello.tls != 0) != config_.tls.enabled()) {
    const bool own = config_.tls.enabled();
    return FailedPrecondition(
        "rank %d %s TLS, but rank %d %s [TD%d]; hint: set --tls_dir for all ranks, or for none",
        hello.rank, own ? "does not use" : "uses", config_.rank, own ? "does" : "does not",
        own ? 6003 : 6004);
  }
  if (hello.channel != static_cast<uint32_t>(Channel::kControl) &&
      hello.channel != static_cast<uint32_t>(Channel::kData)) {
    return FailedPrecondition("rank %d asked for channel %d, expected %d or %d", hello.rank,
                              hello.channel, static_cast<uint32_t>(Channel::kControl),
                              static_cast<uint32_t>(Channel::kData));
  }
  const bool joins = config_.rank == 0 && hello.channel == static_cast<uint32_t>(Channel::kControl);
  if (!joins && generation_ != 0 && hello.generation != generation_) {
    return Unavailable("rank %d belongs to another rendezvous round of this job", hello.rank);
  }
  Seat& seat = At(static_cast<Channel>(hello.channel), hello.rank);
  if (seat.socket == nullptr) return OkStatus();
  // If the rank has closed its earlier connection, it may connect again.
  if (HasLeft(*seat.socket)) {
    seat = Seat();
    return OkStatus();
  }
  return AlreadyExists(
      "rank %d is already connected from %s:%d [TD3008]; hint: stop the old process, or give each "
      "process its own rank",
      hello.rank, GetText(seat.hello.host), seat.hello.port);
}

Status HandshakeAcceptor::CheckAim(const Hello& hello) const {
  if (hello.to_rank != config_.rank) {
    return PermissionDenied(
        "rank %d wanted to reach rank %d, but this is rank %d: another program relays its "
        "connection [TD6025]; hint: look for that program on these hosts",
        hello.rank, hello.to_rank, config_.rank);
  }
  // The caller may have read an announcement just before rank 0 replaced it. After ABORTED the
  // caller reads the announcement again.
  if (hello.meeting != meeting_) {
    return Aborted(
        "rank %d used the rendezvous announcement of another process, not of this rank 0 [TD3014]",
        hello.rank);
  }
  if (!address_) return OkStatus();
  char host[sizeof(hello.to_host)];
  PutText(address_->host, host);
  const HostPort meant{GetText(hello.to_host), static_cast<uint16_t>(hello.to_port)};
  if (meant.host == GetText(host) && meant.port == address_->port) return OkStatus();
  return PermissionDenied(
      "rank %d wanted to reach %s, but this is %s: another program relays its connection [TD6025]; "
      "hint: look for that program on these hosts",
      hello.rank, ToString(meant), ToString(*address_));
}

void HandshakeAcceptor::Refuse(const GuestPtr& guest, const Status& why) {
  guest->welcome.code = static_cast<uint32_t>(why.code());
  PutText(std::string(why.message()), guest->welcome.text);
  const std::string text =
      absl::StrFormat("as rank %d: %s", guest->hello.rank, std::string(why.message()));
  asio::async_write(guest->socket, asio::buffer(&guest->welcome, sizeof(Welcome)),
                    [this, guest, text](const Error&, size_t) {
                      if (!closed_) Drop(guest, text);
                    });
}

}  // namespace tandem::collective
