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
  // `budget` pays until the caller is trusted.
  // `closed` is called once, with no lock held, when the descriptor is about to be closed.
  static std::shared_ptr<Connection> Make(int fd, std::string peer, std::string source,
                                          std::shared_ptr<StrangerBudget> budget, Time since,
                                          std::function<void(Connection&)> closed);

  const std::string& peer() const { return peer_; }
  const std::string& source() const { return source_; }
  Time since() const { return since_; }
  Standing standing() const { return standing_.load(); }
  void set_standing(Standing standing);

  // Shuts the socket down; its owner, mostly gRPC, reads the end and closes it. Later calls do
  // nothing.
  void End();
  bool ended() const { return ended_.load(); }

  // The connection was ended for frames that no honest client sends.
  bool offended() const { return offended_.load(); }
  // The part of its address's budget that it took, from 0 to 1.
  double spent() const { return share_.spent(); }

  // From now on Received() reads HTTP/2. Without it everything passes.
  void WatchFrames();
  // The bytes that recvmsg() of this process received; false: the connection is ended, and they
  // must not be used. One thread at a time.
  bool Received(const msghdr& message, size_t bytes);
  // From now on OfTls() finds the connection by the random bytes of its ClientHello. False: another
  // open connection has the same ones, so this one repeats what it saw, and must be closed.
  bool LinkTls(std::string_view client_random);
  // The bytes that a TLS connection decrypted, as Received().
  bool Decrypted(std::string_view bytes);

  // The open connection with this descriptor; null when it is none of a server's.
  static std::shared_ptr<Connection> Of(int fd);
  // The open connection that LinkTls() named so, or null.
  static std::shared_ptr<Connection> OfTls(std::string_view client_random);
  // Called by close() of this process, for each descriptor.
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
  bool in_the_clear_ = false;  // Received() reads HTTP/2
  std::string client_random_;  // guarded by the table's lock; empty: not linked
  Mutex mu_;
  int fd_ TD_GUARDED_BY(mu_);  // -1: closed
};

// Both names of a peer, from its socket address; "unix:" for a Unix-domain socket.
std::string PeerName(const sockaddr* address);
std::string SourceName(const sockaddr* address);

}  // namespace tandem::rpc
