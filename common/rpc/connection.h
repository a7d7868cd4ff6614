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

// The degree to which the caller of a connection has proven its identity.
enum class Standing : uint8_t {
  kStranger,  // the server has accepted no call of the connection yet
  kObserver,  // the server accepted a call with a certificate that may only read the status
  kReader,    // the server accepted a call with a certificate that may only read values
  kTrusted  // the server accepted a call with the job's token, or with a certificate that may write
};

// One connection of a gRPC server. Thread-safe.
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

  // Shuts down the socket. The socket's owner, usually gRPC, then reads the end of the data and
  // closes the socket. Later calls do nothing.
  void End();
  bool ended() const { return ended_.load(); }
  // Returns whether the descriptor is closed. It is closed before `closed` is called.
  bool closed() const;

  // True if the connection was ended because its caller sent frames that no honest client sends.
  bool offended() const { return offended_.load(); }
  // The part of the budget of the caller's address that this connection has used, from 0 to 1.
  double spent() const { return share_.spent(); }

  // Makes Received() check HTTP/2 frames from now on. Before this call, Received() accepts all
  // bytes.
  void WatchFrames();
  // Checks bytes that recvmsg() of this process received. Returns false if the connection was
  // ended; the caller must then not use the bytes. Not thread-safe: one thread at a time.
  bool Received(const msghdr& message, size_t bytes);
  // Registers the connection for OfTls() under the random bytes of its ClientHello. Returns false
  // if another open connection has the same bytes. This connection is then a replay, and the caller
  // must close it.
  bool LinkTls(std::string_view client_random);
  // Checks bytes that were decrypted from a TLS connection. The result is as for Received().
  bool Decrypted(std::string_view bytes);

  // Returns the open connection with this descriptor, or null if there is no such connection.
  static std::shared_ptr<Connection> Of(int fd);
  // Returns the open connection that LinkTls() registered under this key, or null.
  static std::shared_ptr<Connection> OfTls(std::string_view client_random);
  // Removes the connection of this descriptor, if there is one, and calls its `closed`. The close()
  // of this process calls this function for every descriptor.
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
  bool in_the_clear_ = false;  // true: Received() checks HTTP/2 frames
  // Key of LinkTls(), guarded by the table's lock; empty: not registered.
  std::string client_random_;
  mutable Mutex mu_;
  int fd_ TD_GUARDED_BY(mu_);  // descriptor of the connection; -1: closed
};

// Return the peer name and the source of a socket address. For a Unix-domain socket: "unix:".
std::string PeerName(const sockaddr* address);
std::string SourceName(const sockaddr* address);

}  // namespace tandem::rpc
