// Parses lists of hosts and ports in the format of fleetrun, and marks the entries of this machine.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

struct ProcessEndpoint {
  std::string host;
  int port = 0;
  bool local = true;      // true: the host is this machine
  std::string path = {};  // path of a Unix-domain socket; if set, host and port are unused
  int host_number = 0;    // number of the host in a job of several tandemruns (deploy/launch/hosts)

  bool is_unix() const { return !path.empty(); }
  std::string Text() const {
    return is_unix() ? "unix:" + path : host + ":" + std::to_string(port);
  }
};

// Parses a comma-separated list of "host:port", "host" (port 0) and, for --servers, "unix:/path".
// Sets `local` of each entry. INVALID_ARGUMENT: an entry is malformed; the message names `flag` and
// the entry.
StatusOr<std::vector<ProcessEndpoint>> ParseEndpoints(const std::string& flag,
                                                      const std::string& list);

// Returns whether `host` is a loopback name or address, this machine's name, or an address of one
// of its interfaces. Does not query a name server.
bool IsLocalHost(const std::string& host);

// Returns this machine's name.
std::string HostName();

// Assigns a port to every entry with port 0. If all entries are local, the port is a free one.
// Otherwise the port is `start_port` plus the entry's index among the entries of its host, because
// every host must compute the same ports. INVALID_ARGUMENT: two entries are equal after the
// assignment. UNAVAILABLE: the port of a local entry is in use, or no port is free.
Status AssignPorts(const std::string& flag, int start_port,
                   std::vector<ProcessEndpoint>& endpoints);

// Returns a list such as "a:1,b:2".
std::string JoinEndpoints(const std::vector<ProcessEndpoint>& endpoints);

}  // namespace tandem::deploy
