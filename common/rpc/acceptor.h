// Accepts the connections of a gRPC server on a separate thread. The acceptor hands a connection
// over to gRPC only if the first received bytes are those of HTTP/2 or TLS. gRPC's own acceptor
// accepts every connection, and stops forever after the process has run out of descriptors
// (CVE-2023-4785).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "common/rpc/admissions.h"
#include "common/rpc/token_bucket.h"

namespace tandem::rpc {

struct AcceptorOptions {
  bool tls = false;
  // The first bytes of a connection must arrive within this time after accept().
  Duration hello_timeout = std::chrono::seconds(5);
  // Rate limit of accepted connections, for all callers together. Connections of trusted callers do
  // not count. Connections above the limit wait in the kernel's queue.
  double accepts_burst = 512, accepts_per_second = 512;
  // Receives and owns a connection whose first bytes are valid. The first bytes are still unread.
  // `listener` is the descriptor of the listening socket. Runs on the acceptor's thread.
  std::function<void(int listener, Fd connection)> hand_over;
};

class Acceptor {
 public:
  // `sockets` are listening, non-blocking, and are TCP or Unix-domain sockets. On a Unix-domain
  // socket, the acceptor accepts only callers that run as this process's user or as root, and
  // trusts these callers.
  static StatusOr<std::unique_ptr<Acceptor>> Start(std::vector<Fd> sockets,
                                                   std::shared_ptr<Admissions> admissions,
                                                   AcceptorOptions options);
  // Stops the thread. After the destructor has returned, no hand_over runs and no client can
  // connect.
  ~Acceptor();

 private:
  struct Waiting {
    Fd fd;
    int listener;
    std::shared_ptr<Connection> connection;
    // true: the first bytes are valid, and the connection waits for Admissions::MayBegin
    bool greeted = false;
  };

  Acceptor(std::vector<Fd> sockets, std::shared_ptr<Admissions> admissions,
           AcceptorOptions options);
  Status Watch();
  bool IsListener(int fd) const;
  void Run();
  void AcceptSome(int listener, Time now);
  void Welcome(int listener, Fd fd, Time now);
  // Checks the first bytes of a connection that have arrived so far. Then hands the connection
  // over, keeps it in waiting_, or closes it.
  void Look(int fd, Time now);
  void Begin(Waiting waiting);
  // Hands over the waiting connections that Admissions::MayBegin allows now. Closes the connections
  // whose first bytes did not arrive within hello_timeout.
  void Tend(Time now);
  void Listen(bool on);

  std::vector<Fd> sockets_;
  const std::shared_ptr<Admissions> admissions_;
  const AcceptorOptions options_;
  TokenBucket accepts_;
  Fd epoll_, stop_;
  bool listening_ = true;
  bool newest_first_ = false;  // order in which waiting connections get their turn; alternates
  // The acceptor accepts no connection before this time. Set when the process or the system has run
  // out of descriptors or memory.
  Time pause_until_;
  std::unordered_map<int, Waiting> waiting_;
  std::thread thread_;
};

}  // namespace tandem::rpc
