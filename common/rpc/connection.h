// One accepted connection of a gRPC server, from accept() until its descriptor is closed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/http2_watch.h"

struct msghdr;
struct sockaddr;

namespace tandem {

// Who a caller is known to be.
enum class Standing : uint8_t {
  kStranger,  // no call of the connection has been accepted
  kObserver,  // a call was, by a certificate that may only look
  kTrusted    // a call was, by the job's token or a certificate that may change something
};

// Thread-safe.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `peer` as grpc::ServerContext::peer() says it. `source`: the address without its port, and of
  // IPv6 the network of 64 bits, which one caller may have whole.
  // `closed` is called once, with no lock held, when the descriptor is about to be closed.
  static std::shared_ptr<Connection> Make(int fd, std::string peer, std::string source, Time since,
                                          std::function<void(Connection&)> closed);

  const std::string& peer() const { return peer_; }
  const std::string& source() const { return source_; }
  Time since() const { return since_; }
  Standing standing() const { return standing_.load(); }
  void set_standing(Standing standing) { standing_.store(standing); }

  // Shuts the socket down; its owner, mostly gRPC, reads the end and closes it. Later calls do
  // nothing.
  void End();
  bool ended() const { return ended_.load(); }

  // From now on what is received is read as HTTP/2 by Received(). Without it everything passes.
  void WatchFrames();
  // The bytes that recvmsg() of this process received; false: the connection is ended, and they
  // must not be used. One thread at a time.
  bool Received(const msghdr& message, size_t bytes);

  // The open connection with this descriptor; null when it is none of a server's.
  static std::shared_ptr<Connection> Of(int fd);
  // Called by close() of this process, for each descriptor.
  static void Closing(int fd);

 private:
  Connection(int fd, std::string peer, std::string source, Time since,
             std::function<void(Connection&)> closed);

  const std::string peer_, source_;
  const Time since_;
  const std::function<void(Connection&)> closed_;
  std::atomic<Standing> standing_{Standing::kStranger};
  std::atomic<bool> ended_{false};
  std::unique_ptr<Http2Watch> watch_;  // null: frames are not watched here
  Mutex mu_;
  int fd_ TD_GUARDED_BY(mu_);  // -1: closed
};

// Both names of a peer, from its socket address; "unix:" for a Unix-domain socket.
std::string PeerName(const sockaddr* address);
std::string SourceName(const sockaddr* address);

}  // namespace tandem
