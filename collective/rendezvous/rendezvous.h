// The rendezvous: how the ranks of a job connect to each other over TCP. Rank 0 listens at a known
// address, or at an address that a shared directory or etcd provides (rendezvous_store.h). Rank 0
// collects the addresses of all ranks and sends the list to all ranks. Then every pair of ranks
// connects. A rank accepts only peers that prove that they know the job's secret, and rejects and
// logs all other connections. With certificates, the ranks then encrypt their connections with TLS.
// Without certificates, later messages between ranks carry a keyed checksum (sealed_socket.h). The
// messages of the rendezvous itself are signed but not encrypted: names of job and hosts, ports and
// ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collective/rendezvous/etcd_access.h"
#include "collective/rendezvous/host_port.h"
#include "collective/secure/sealed_socket.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "common/rpc/credentials/tls_files.h"

namespace tandem::collective {

struct WorldConfig {
  int rank = 0;
  int size = 1;
  std::string job;     // name of the job, at most 63 bytes; must be equal on all ranks
  std::string secret;  // secret of the job, not empty; it is from a file, never from a command line
  // Certificate of role trainer, its key, and the authority of all ranks. All set: TLS 1.3 between
  // the ranks, with certificates on both sides. JoinWorld reads the files. Empty: no TLS. All ranks
  // must use TLS, or none.
  rpc::TlsFiles tls;
  std::string rendezvous;  // "host:port" on which rank 0 listens, or another form of RendezvousUrl
  EtcdAccess etcd;         // for a rendezvous in etcd
  Duration timeout = std::chrono::seconds(60);  // time limit for all of JoinWorld
  // Time limit for the second phase, in which all ranks have joined and connect to each other. The
  // phase also counts towards `timeout`. If a rank dies in this phase, JoinWorld fails on all
  // ranks.
  Duration connect_timeout = std::chrono::hours(1);

  // Host on which this rank listens, at any free port. Rank 0 uses listen_host only if `rendezvous`
  // has no address of rank 0. If listen_host is empty, a rank other than 0 listens on the address
  // from which it reaches rank 0. Rank 0 then listens on 127.0.0.1 if network_allowed is false;
  // otherwise on the address from which it reaches etcd (etcd://) or any network (file://).
  std::string listen_host;
  // False: listen_host and an announced address of rank 0 must be loopback addresses (127.0.0.0/8
  // or ::1). True: they may be any addresses. Without `tls`, data between ranks are not encrypted.
  // An address of rank 0 in `rendezvous` is always allowed.
  bool network_allowed = true;
  // A bound socket on which this rank listens; the socket may already listen. -1: JoinWorld binds a
  // socket. JoinWorld owns and closes the socket.
  int listen_fd = -1;

  Duration handshake_timeout = std::chrono::seconds(5);  // time limit for a proof of identity
  int guests_max = 32;  // maximum number of unproven connections; a further one closes the oldest
  // JoinWorld calls this function every two seconds with a text about the current wait, such as
  // "waiting for rank 0 at host:1 (3 s of 60 s)". Empty: the text is logged.
  std::function<void(const std::string&)> progress;
  // JoinWorld calls this function periodically with the missing ranks and the time waited so far.
  // `ranks` contains only ranks that have not joined, and no ranks that wait for others.
  std::function<void(const std::vector<int>& ranks, Duration waited)> missing;
  // JoinWorld calls this function several times per second while it waits. The wait ends with
  // CANCELLED if the function returns true. Empty: the wait is never cancelled.
  std::function<bool()> stop;
  // The next two fields are for the time after JoinWorld (TcpOptions in
  // collective/transport/tcp.h).
  Duration host_timeout = Duration::zero();
  std::function<Status()> check;
};

// The connections of one rank to all other ranks. The sockets are non-blocking; the index is the
// rank. A rank has no connection to itself.
struct Mesh {
  int rank = 0;
  int size = 1;
  uint64_t generation = 0;         // random number of this rendezvous round, equal on all ranks
  std::vector<std::string> hosts;  // "host:port" on which each rank listened; for messages
  std::vector<SealedSocket> control, data;
};

// Connects every rank to every other rank. Blocks until all are connected, but at most for
// config.timeout. After the return this rank no longer listens, and may leave even if JoinWorld has
// not returned on other ranks. While ranks are missing, a rank that died may join again.
//
// INVALID_ARGUMENT: wrong config. UNAVAILABLE: the port is in use, or a rank left after all had
// joined. DEADLINE_EXCEEDED: ranks are missing; the message names them. PERMISSION_DENIED: the
// secret differs, a certificate is for another role or job, or network_allowed forbids the address.
// UNAUTHENTICATED: a rank rejects the certificate of another rank. ALREADY_EXISTS: another process
// has this rank. FAILED_PRECONDITION: job, size or version differ, or only some ranks use TLS.
// CANCELLED: see config.stop. JoinWorld also returns the errors of RendezvousStore.
StatusOr<Mesh> JoinWorld(const WorldConfig& config);

}  // namespace tandem::collective
