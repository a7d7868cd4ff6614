// The rendezvous: how the ranks of a job connect to each other over TCP. Rank 0 listens at a known
// address, or at one that a shared directory or etcd provides (rendezvous_store.h). It collects the
// addresses of all ranks and sends them to all. Then every pair connects. Only ranks that prove the
// job's secret are accepted; other connections are rejected and logged. Later messages between
// ranks are sealed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collective/rendezvous/host_port.h"
#include "collective/secure/sealed_socket.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::collective {

struct WorldConfig {
  int rank = 0;
  int size = 1;
  std::string job;         // at most 63 bytes; this and the next four must be equal on all ranks
  std::string secret;      // secret of the job, not empty; from a file, never from a command line
  std::string rendezvous;  // "host:port" on which rank 0 listens, or another RendezvousUrl
  Duration timeout = std::chrono::seconds(60);  // for all of JoinWorld
  // Limit for the second phase, in which all ranks have joined and connect to each other (included
  // in `timeout`). If a rank dies in this phase, all ranks fail and must rejoin.
  Duration connect_timeout = std::chrono::hours(1);

  // Host on which this rank listens, at any port; used on rank 0 only if `rendezvous` has no
  // address. Empty: the address from which this rank reaches rank 0. Empty on rank 0: 127.0.0.1;
  // with network_allowed the address from which it reaches etcd, or the network in general.
  std::string listen_host;
  // Allows addresses other than 127.0.0.0/8 and ::1 if `rendezvous` does not name the address.
  // Ranks send without encryption.
  bool network_allowed = true;
  // A socket that is already bound (and may listen), to use instead of binding one; -1: none.
  // JoinWorld owns it and closes it.
  int listen_fd = -1;

  Duration handshake_timeout = std::chrono::seconds(5);  // for one connection to prove its identity
  int guests_max = 32;  // most connections that have not done so; one more closes the oldest
  // Called every two seconds with the current wait, such as "waiting for rank 0 at host:1 (3 s of
  // 60 s)". Empty: logged instead.
  std::function<void(const std::string&)> progress;
  // Called periodically with the ranks that are missing, and the time waited so far. Names only
  // ranks that have not joined, not those that wait for others themselves.
  std::function<void(const std::vector<int>& ranks, Duration waited)> missing;
  // Called several times per second while ranks are missing. true ends the wait (CANCELLED). Empty:
  // never.
  std::function<bool()> stop;
};

// The connections of one rank to all others: non-blocking, indexed by rank (none to itself).
struct Mesh {
  int rank = 0;
  int size = 1;
  uint64_t generation = 0;         // of this rendezvous round: drawn by rank 0, equal on all ranks
  std::vector<std::string> hosts;  // by rank: "host:port" on which it listened, for messages
  std::vector<SealedSocket> control, data;
};

// Blocks until every rank is connected to every other, at most config.timeout. After the return no
// rank listens any more. A rank may leave the world without harm to ranks that have not returned
// yet. While ranks are missing, a rank that joined and died may join again.
//
// INVALID_ARGUMENT: bad config. UNAVAILABLE: the port is in use, or a rank left after all had
// joined. DEADLINE_EXCEEDED: ranks are missing; the message names them. PERMISSION_DENIED: the
// secret differs, or network_allowed forbids the address. ALREADY_EXISTS: another process has this
// rank. FAILED_PRECONDITION: job, size or version differ. CANCELLED: see config.stop. Also the
// errors of RendezvousStore.
StatusOr<Mesh> JoinWorld(const WorldConfig& config);

}  // namespace tandem::collective
