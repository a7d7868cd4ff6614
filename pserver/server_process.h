// The process of a server: the server itself, or one member of a server with standbys, with its
// status page, its messages to tandemrun, and its end.
#pragma once

#include <optional>
#include <string>

#include "common/base/endpoint.h"
#include "common/os/fd.h"
#include "pserver/pserver.h"

namespace tandem::pserver {

struct ServerProcessOptions {
  PserverOptions server;
  // Socket of MemberChannel. With it, the process begins as a standby, and tandemrun decides whom
  // it follows and when it is the primary. Not valid: the process serves at once.
  Fd member_socket;
  std::optional<Endpoint>
      replica_of;             // the process is a replica of this server; nullopt: it is not
  std::string status_listen;  // address of the status page; "": none
  std::string health_listen;  // address for health probes; "": none
  std::string launcher_fifo;  // FIFO of tandemrun (launcher_words.h); "": there is no tandemrun
  // Lease of the tandemrun of this host (launcher_lease.h). If it expires, the process ends at
  // once, because another host may have a new primary. "": there is no lease.
  std::string lease_file;
};

// Serves until a stop request or a failure. Prints errors on stderr. Returns the exit code of the
// process. Blocks the stop signals in this thread and in all threads that it starts later, so the
// caller starts no threads before.
int RunServer(ServerProcessOptions options);

}  // namespace tandem::pserver
