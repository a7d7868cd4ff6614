#include "collective/rendezvous/mesh_tls.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "collective/rendezvous/handshake.h"
#include "common/base/require.h"

namespace tandem::collective {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(100);  // time between two calls of `stop`
constexpr Duration kReasonWait = std::chrono::milliseconds(500);

// Returns the proof of the side that sends with `key`.
Mac ProofOf(const SessionKey& key, const TlsStream::Binding& binding) {
  return MacOf(std::string(key.begin(), key.end()), std::as_bytes(std::span(binding)));
}

}  // namespace

class MeshTls::Starting {
 public:
  Starting(const std::shared_ptr<const TlsContext>& context, Line line)
      : line_(std::move(line)),
        tls_(std::make_unique<TlsStream>(
            context, line_.fd.get(),
            line_.dialled ? TlsStream::Side::kDialler : TlsStream::Side::kListener)) {}

  // Continues as far as possible without waiting.
  Status Advance();
  // Returns true if this connection waits for nothing more.
  bool done() const { return state_ == State::kDone || state_ == State::kFailed; }
  const std::string& peer() const { return line_.peer; }
  pollfd events() const { return {line_.fd.get(), events_, 0}; }

 private:
  enum class State : uint8_t { kHandshake, kSend, kReceive, kDone, kFailed };

  Status Step();

  Status Shake();
  Status Send();
  Status Receive();
  Status Lost(const Moved& moved) const;

  Line line_;
  std::unique_ptr<TlsStream> tls_;
  State state_ = State::kHandshake;
  short events_ = 0;  // events of the socket that this connection waits for; 0: none
  Mac own_ = {}, expected_ = {}, received_ = {};
  size_t sent_ = 0, got_ = 0;
};

Status MeshTls::Starting::Advance() {
  events_ = 0;
  while (events_ == 0 && !done()) {
    const Status status = Step();
    if (status.ok()) continue;
    state_ = State::kFailed;
    return Annotate(status, line_.peer);
  }
  return OkStatus();
}

Status MeshTls::Starting::Step() {
  switch (state_) {
    case State::kHandshake:
      return Shake();
    case State::kSend:
      return Send();
    case State::kReceive:
      return Receive();
    case State::kDone:
    case State::kFailed:
      break;
  }
  return OkStatus();
}

Status MeshTls::Starting::Shake() {
  TD_ASSIGN_OR_RETURN(const TlsStream::Progress progress, tls_->Handshake());
  if (progress == TlsStream::Progress::kNeedsRead) events_ = POLLIN;
  if (progress == TlsStream::Progress::kNeedsWrite) events_ = POLLOUT;
  if (progress != TlsStream::Progress::kDone) return OkStatus();
  const TlsStream::Binding binding = tls_->ChannelBinding();
  own_ = ProofOf(line_.keys.send, binding);
  expected_ = ProofOf(line_.keys.receive, binding);
  state_ = State::kSend;
  return OkStatus();
}

Status MeshTls::Starting::Send() {
  const Moved moved = tls_->TrySend(std::as_bytes(std::span(own_)).subspan(sent_), {});
  TD_RETURN_IF_ERROR(Lost(moved));
  sent_ += moved.bytes;
  if (moved.bytes == 0) events_ = POLLOUT;
  if (sent_ == own_.size()) state_ = State::kReceive;
  return OkStatus();
}

Status MeshTls::Starting::Receive() {
  const Moved moved = tls_->TryRecv(std::as_writable_bytes(std::span(received_)).subspan(got_), {});
  TD_RETURN_IF_ERROR(Lost(moved));
  got_ += moved.bytes;
  if (moved.bytes == 0) events_ = POLLIN;
  if (got_ < received_.size()) return OkStatus();
  if (!SameMac(received_, expected_)) {
    return PermissionDenied(
        "the TLS connection ends at another program than the handshake between the ranks "
        "[TD6025]; hint: look for a program that relays connections between these hosts");
  }
  *line_.to = SealedSocket(std::move(line_.fd), std::move(tls_));
  state_ = State::kDone;
  return OkStatus();
}

// In TLS 1.3 the dialler completes its handshake before the listener verifies the certificate. So a
// rejection arrives here.
Status MeshTls::Starting::Lost(const Moved& moved) const {
  if (moved.end == Moved::End::kOpen) return OkStatus();
  if (moved.end == Moved::End::kForged) return tls_->failure();
  return Unavailable(
      "it closed the connection while TLS started: %s [TD3005]; hint: look at its log",
      moved.error == 0 ? "no system error" : ErrnoText(moved.error));
}

MeshTls::MeshTls(std::shared_ptr<const TlsContext> context, Time deadline,
                 const std::function<bool()>& stop)
    : context_(std::move(context)), deadline_(deadline), stop_(stop) {}

MeshTls::~MeshTls() = default;

void MeshTls::Add(Line line) {
  TD_REQUIRE(context_ != nullptr && line.to != nullptr);
  lines_.push_back(std::make_unique<Starting>(context_, std::move(line)));
}

Status MeshTls::Start() {
  Status lost;  // the error of the first lost connection
  while (true) {
    bool done = true;
    for (const auto& line : lines_) {
      Status status = line->Advance();
      // A rank that rejects a certificate names the reason on one connection and closes all. So
      // this rank waits a little for an error that names the reason.
      if (!status.ok() && status.code() != StatusCode::kUnavailable) return status;
      if (!status.ok() && lost.ok()) {
        lost = status;
        deadline_ = std::min(deadline_, SteadyNow() + kReasonWait);
      }
      done = done && line->done();
    }
    if (done) return lost;
    const Status waited = Wait();
    if (!waited.ok()) return lost.ok() ? waited : lost;
  }
}

Status MeshTls::Wait() {
  std::vector<pollfd> fds;
  std::string waited;
  for (const auto& line : lines_) {
    if (line->done()) continue;
    fds.push_back(line->events());
    waited = line->peer();
  }
  while (true) {
    if (stop_ && stop_()) return Cancelled("the start of TLS with %s stopped on request", waited);
    const Duration left = std::min<Duration>(deadline_ - SteadyNow(), kLook);
    if (left <= Duration::zero()) {
      return DeadlineExceeded(
          "%s did not complete the TLS handshake in time [TD3002]; hint: read its log", waited);
    }
    const timespec wait = {0, left.count()};
    const int ready = ::ppoll(fds.data(), fds.size(), &wait, nullptr);
    if (ready > 0) return OkStatus();
    if (ready < 0 && errno != EINTR) {
      return Internal("cannot wait for the sockets of other ranks: %s", ErrnoText(errno));
    }
  }
}

}  // namespace tandem::collective
