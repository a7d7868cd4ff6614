// Accepts the connections of a gRPC server in a thread of its own, and hands over those that begin
// as HTTP/2 or TLS does. gRPC would take every connection, and out of descriptors it stops
// accepting for ever (CVE-2023-4785).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/status.h"
#include "common/rpc/admissions.h"
#include "common/rpc/token_bucket.h"

namespace tandem::rpc {

struct AcceptorOptions {
  bool tls = false;
  // Within this time the first bytes of a connection must be there.
  Duration hello_timeout = std::chrono::seconds(5);
  // Of all callers; a connection that is trusted does not count. More wait in the kernel's queue.
  double accepts_burst = 512, accepts_per_second = 512;
  // Takes the connection, whose first bytes are still to be read.
  std::function<void(int listener, Fd connection)> hand_over;
};

class Acceptor {
 public:
  // `sockets` listen, do not block, and are TCP or Unix-domain sockets. A Unix-domain socket takes
  // this process's own user and root alone, and trusts them.
  static StatusOr<std::unique_ptr<Acceptor>> Start(std::vector<Fd> sockets,
                                                   std::shared_ptr<Admissions> admissions,
                                                   AcceptorOptions options);
  // No hand_over runs any more afterwards; nobody can connect.
  ~Acceptor();

 private:
  struct Waiting {
    Fd fd;
    int listener;
    std::shared_ptr<Connection> connection;
    bool greeted = false;  // the hello is there, but the source's turn is not
  };

  Acceptor(std::vector<Fd> sockets, std::shared_ptr<Admissions> admissions,
           AcceptorOptions options);
  Status Watch();
  bool IsListener(int fd) const;
  void Run();
  void AcceptSome(int listener, Time now);
  void Welcome(int listener, Fd fd, Time now);
  // Reads what is there of the hello. The connection is handed over, goes on waiting, or is closed.
  void Look(int fd, Time now);
  void Begin(Waiting waiting);
  // Once a round: those who wait for their turn, and those who wait too long.
  void Tend(Time now);
  void Listen(bool on);

  std::vector<Fd> sockets_;
  const std::shared_ptr<Admissions> admissions_;
  const AcceptorOptions options_;
  TokenBucket accepts_;
  Fd epoll_, stop_;
  bool listening_ = true;
  bool newest_first_ = false;  // of those who wait for their turn
  Time pause_until_;           // out of descriptors
  std::unordered_map<int, Waiting> waiting_;
  std::thread thread_;
};

}  // namespace tandem::rpc
