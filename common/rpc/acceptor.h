// Accepts the connections of a gRPC server on a separate thread. It hands a connection over to gRPC
// only after its first bytes look like HTTP/2 or TLS.
// gRPC itself would accept every connection, and it stops accepting forever once it runs out of
// descriptors (CVE-2023-4785).
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
  // The first bytes of a connection must arrive within this time.
  Duration hello_timeout = std::chrono::seconds(5);
  // Limits for all callers together. A trusted connection does not count. Further connections wait
  // in the kernel's queue.
  double accepts_burst = 512, accepts_per_second = 512;
  // Receives a connection whose first bytes are still unread.
  std::function<void(int listener, Fd connection)> hand_over;
};

class Acceptor {
 public:
  // `sockets` are listening, non-blocking, and are TCP or Unix-domain sockets. A Unix-domain socket
  // accepts only this process's own user and root, and trusts both.
  static StatusOr<std::unique_ptr<Acceptor>> Start(std::vector<Fd> sockets,
                                                   std::shared_ptr<Admissions> admissions,
                                                   AcceptorOptions options);
  // Stops the thread. After it returns, no hand_over runs and no client can connect.
  ~Acceptor();

 private:
  struct Waiting {
    Fd fd;
    int listener;
    std::shared_ptr<Connection> connection;
    bool greeted = false;  // the hello has arrived; the connection waits for its source's turn
  };

  Acceptor(std::vector<Fd> sockets, std::shared_ptr<Admissions> admissions,
           AcceptorOptions options);
  Status Watch();
  bool IsListener(int fd) const;
  void Run();
  void AcceptSome(int listener, Time now);
  void Welcome(int listener, Fd fd, Time now);
  // Reads the available bytes of the hello. Then it hands the connection over, keeps it waiting, or
  // closes it.
  void Look(int fd, Time now);
  void Begin(Waiting waiting);
  // Runs once per round. Hands over connections whose turn has come, and closes those that have
  // waited too long.
  void Tend(Time now);
  void Listen(bool on);

  std::vector<Fd> sockets_;
  const std::shared_ptr<Admissions> admissions_;
  const AcceptorOptions options_;
  TokenBucket accepts_;
  Fd epoll_, stop_;
  bool listening_ = true;
  bool newest_first_ = false;  // order of the connections that wait for their turn
  Time pause_until_;           // set when the process is out of descriptors
  std::unordered_map<int, Waiting> waiting_;
  std::thread thread_;
};

}  // namespace tandem::rpc
