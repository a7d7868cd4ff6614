// One accepted connection of a gRPC server, from accept() until its descriptor is closed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/http2_watch.h"
#include "common/rpc/stranger_budget.h"

struct msghdr;
struct sockaddr;

namespace tandem::rpc {

// The proven identity of a caller.
enum class Standing : uint8_t {
  kStranger,  // no call of the connection has been accepted
  kObserver,  // a call was accepted, with a certificate that may only read
  kTrusted  // a call was accepted, with the job's token or a certificate that may change something
};

// Thread-safe.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `peer` is written as grpc::ServerContext::peer() writes it. `source` is the address without its
  // port; for IPv6 it is the /64 network, because one caller may own the whole network.
  // `budget` limits the connection until the caller is trusted. `closed` is called once, with no
  // lock held, just before the descriptor is closed.
  static std::shared_ptr<Connection> Make(int fd, std::string peer, std::string source,
                                          std::shared_ptr<StrangerBudget> budget, Time since,
                                          std::function<void(Connection&)> closed);

  const std::string& peer() const { return peer_; }
  const std::string& source() const { return source_; }
  Time since() const { return since_; }
  Standing standing() const { return standing_.load(); }
  void set_standing(Standing standing);

  // Shuts the socket down. Its owner, usually gRPC, then reads end-of-file and closes it. Later
  // calls do nothing.
  void End();
  bool ended() const { return ended_.load(); }

  // The connection was ended for frames that no honest client sends.
  bool offended() const { return offended_.load(); }
  // The used part of the budget of the connection's address, from 0 to 1.
  double spent() const { return share_.spent(); }

  // Makes Received() check HTTP/2 frames from now on. Before this call all bytes pass.
  void WatchFrames();
  // Checks bytes that recvmsg() of this process received. False: the connection is ended, and the
  // bytes must not be used. One thread at a time.
  bool Received(const msghdr& message, size_t bytes);
  // Makes the connection available to OfTls() under the random bytes of its ClientHello. False:
  // another open connection has the same bytes, so this one is a replay and must be closed.
  bool LinkTls(std::string_view client_random);
  // Checks bytes that a TLS connection decrypted, like Received().
  bool Decrypted(std::string_view bytes);

  // Returns the open connection with this descriptor, or null if it does not belong to a server.
  static std::shared_ptr<Connection> Of(int fd);
  // Returns the open connection that LinkTls() registered under this key, or null.
  static std::shared_ptr<Connection> OfTls(std::string_view client_random);
  // Called by close() of this process for each descriptor.
  static void Closing(int fd);

 private:
  Connection(int fd, std::string peer, std::string source, std::shared_ptr<StrangerBudget> budget,
             Time since, std::function<void(Connection&)> closed);
  bool Passes(std::string_view bytes, Time now);

  const std::string peer_, source_;
  const Time since_;
  const std::function<void(Connection&)> closed_;
  std::atomic<Standing> standing_{Standing::kStranger};
  std::atomic<bool> ended_{false}, offended_{false};
  StrangerShare share_;
  Http2Watch watch_;
  bool in_the_clear_ = false;  // Received() checks HTTP/2 frames
  std::string client_random_;  // guarded by the table's lock; empty: not linked
  Mutex mu_;
  int fd_ TD_GUARDED_BY(mu_);  // -1: closed
};

// Return the peer name and the source of a socket address; "unix:" for a Unix-domain socket.
std::string PeerName(const sockaddr* address);
std::string SourceName(const sockaddr* address);

}  // namespace tandem::rpc
