// How the ranks of a job find each other over TCP: rank 0 listens where everybody knows, or where a
// shared folder or etcd tells (rendezvous_store.h), collects where the others listen, and tells
// all; then every pair connects. Only ranks that prove the job's secret get in; strangers are
// refused, logged and forgotten. What ranks then send each other is sealed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collective/rendezvous/host_port.h"
#include "collective/secure/sealed_socket.h"
#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/status.h"

namespace tandem {

struct WorldConfig {
  int rank = 0;
  int size = 1;
  std::string job;         // at most 63 bytes; the same on all ranks, as are the next four
  std::string secret;      // of the job, not empty; read from a file, never from a command line
  std::string rendezvous;  // "host:port" where rank 0 listens, or another RendezvousUrl
  Duration timeout = std::chrono::seconds(60);  // for the whole of JoinWorld
  // Of it, once all ranks are there and connect to each other. A rank that dies now is not waited
  // for: all give up and come again.
  Duration connect_timeout = std::chrono::hours(1);

  // Where this rank listens (any port; rank 0 only where `rendezvous` does not say). Empty: the
  // address from which it reaches rank 0. Rank 0: 127.0.0.1, or with network_allowed the one from
  // which it reaches etcd, or the network at large.
  std::string listen_host;
  // Whether ranks may meet elsewhere than on 127.0.0.0/8 and ::1, where `rendezvous` does not name
  // the place. They send in the clear.
  bool network_allowed = true;
  // A socket that is bound already (and may listen), instead of binding one. JoinWorld owns it and
  // closes it.
  int listen_fd = -1;

  Duration handshake_timeout = std::chrono::seconds(5);  // for one connection to say who it is
  int guests_max = 32;  // connections that have not yet; one more, and the oldest is dropped
  // Told now and then what is being waited for ("waiting for rank 0 at host:1 (3 s of 60 s)").
  // Empty: logged.
  std::function<void(const std::string&)> progress;
  // Told now and then which ranks are waited for, and for how long by now. Only ranks that do not
  // come are named, not those that wait for others themselves.
  std::function<void(const std::vector<int>& ranks, Duration waited)> missing;
  // Asked some times a second while ranks are waited for: true ends it (CANCELLED). Empty: never.
  std::function<bool()> stop;
};

// The connections of one rank to all others, non-blocking, indexed by rank (none to itself).
struct Mesh {
  int rank = 0;
  int size = 1;
  uint64_t generation = 0;         // of this world: drawn by rank 0, the same on all ranks
  std::vector<std::string> hosts;  // "host:port" where that rank listened, for messages
  std::vector<SealedSocket> control, data;
};

// Blocks until every rank is connected to every other, or config.timeout. On return nobody listens
// any more, and a rank may leave the world without harm to those that have yet to return. While
// ranks are missing, one that was here and died may come again. INVALID_ARGUMENT: bad config;
// UNAVAILABLE: the port is taken, or a rank left once all were there; DEADLINE_EXCEEDED naming the
// ranks that are missing; PERMISSION_DENIED: the secret differs, or network_allowed;
// ALREADY_EXISTS: the rank is taken; FAILED_PRECONDITION: job, size or version differ; CANCELLED;
// what RendezvousStore says.
StatusOr<Mesh> JoinWorld(const WorldConfig& config);

}  // namespace tandem
