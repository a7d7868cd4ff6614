// The connection between two tandemruns of a job: TLS 1.3 with a key that both derive from the
// job's secret (RFC 8446, 2.2), so that no certificate is needed. The key exchange is fresh for
// each connection. A link never waits; its owner polls the socket.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"

struct ssl_st;

namespace tandem::deploy {

// The key of a job's links, and the name under which the two ends mean the same job.
struct LinkKey {
  // Derives the key from the secret of job `job`.
  static LinkKey Of(const std::string& job, const std::string& secret);
  std::string identity;
  std::array<uint8_t, 32> key{};
};

// Not thread-safe.
class HostLink {
 public:
  enum class Side : uint8_t { kDialler, kListener };
  static constexpr size_t kFrameBytesMax = size_t{4} << 20;
  static constexpr size_t kUnsentBytesMax = size_t{64} << 20;

  // `socket`: a connected or connecting TCP socket. `key` must outlive the link. `silence`: time
  // without bytes of the peer after which the link is lost. The link sends a ping four times within
  // this time. REQUIRES: `socket` is non-blocking.
  HostLink(Fd socket, Side side, const LinkKey& key, Duration silence, Time now);
  ~HostLink();
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;

  int fd() const { return socket_.get(); }
  short events() const;  // the events of poll(2) for which the link waits
  // Returns the time at which Step must be called at the latest.
  Time wakeup() const;

  // Receives and sends what is possible without waiting. Returns why the link is lost, also in all
  // later calls; OK: it is not. PERMISSION_DENIED: the peer has another secret or job.
  // DEADLINE_EXCEEDED: the peer was silent. UNAVAILABLE: the connection has ended. Frames that
  // arrived before the loss can still be taken. DATA_LOSS: a frame is too long.
  Status Step(Time now);
  // Queues a frame. The link is lost if more than kUnsentBytesMax are queued. REQUIRES: `frame` has
  // at most kFrameBytesMax bytes.
  void Send(const std::string& frame);
  // Returns the next received frame; nullopt: none.
  std::optional<std::string> Take();
  // Returns whether both ends have proved that they know the secret.
  bool established() const { return established_; }
  bool all_sent() const { return unsent_.empty() && outgoing_.empty(); }
  // Tells the peer that no bytes follow.
  void SendNoMore();
  // Return the IPv4 address of the peer, and of this side, such as "10.0.0.1".
  std::string PeerAddress() const;
  std::string LocalAddress() const;

 private:
  Status Receive(Time now);
  Status Handshake();
  Status Decrypt();
  Status Flush();
  Status HandshakeError();

  const Fd socket_;
  const LinkKey& key_;
  const Duration silence_;
  ssl_st* const ssl_;
  bool established_ = false;
  bool ended_ = false;    // the peer has closed the connection
  std::string outgoing_;  // frames that are not encrypted yet
  std::string unsent_;    // encrypted bytes that the kernel does not have yet
  std::string incoming_;  // decrypted bytes without a complete frame
  std::deque<std::string> frames_;
  Time began_, heard_, ping_at_;
  Status lost_;
};
}  // namespace tandem::deploy
