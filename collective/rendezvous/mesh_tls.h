// The start of TLS on all connections of a rank, after the handshake between the ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/secure/sealed_socket.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::collective {

// Runs the TLS handshakes of all connections at the same time, so that the order in which the ranks
// make them does not matter. Then both ends of each connection prove that they made the handshake
// with the job's secret (handshake.h) and this TLS connection. So a holder of another rank's
// certificate cannot relay the connection. For one thread.
class MeshTls {
 public:
  struct Line {
    Fd fd;
    bool dialled = false;  // true: this rank connected; false: it listened
    SessionKeys keys;      // keys of the handshake between the ranks
    std::string peer;      // name of the peer for messages, such as "rank 1 at 10.0.0.2:4711"
    // Set to the connection when TLS has started. Must outlive the call of Start.
    SealedSocket* to = nullptr;
  };

  // `stop`: see WorldConfig::stop.
  MeshTls(std::shared_ptr<const TlsContext> context, Time deadline,
          const std::function<bool()>& stop);
  ~MeshTls();
  MeshTls(const MeshTls&) = delete;
  MeshTls& operator=(const MeshTls&) = delete;

  void Add(Line line);  // REQUIRES: the context is not null
  // Returns when TLS has started on all added connections. Errors name the peer.
  // UNAUTHENTICATED, PERMISSION_DENIED, FAILED_PRECONDITION, UNAVAILABLE: see TlsStream::Handshake.
  // PERMISSION_DENIED also if a program relays the connection. DEADLINE_EXCEEDED: a peer did not
  // reply until the deadline. CANCELLED: `stop` returned true.
  Status Start();

 private:
  class Starting;  // one connection
  Status Wait();   // waits for the events of the connections that have not started

  const std::shared_ptr<const TlsContext> context_;
  Time deadline_;
  const std::function<bool()>& stop_;
  std::vector<std::unique_ptr<Starting>> lines_;
};

}  // namespace tandem::collective
