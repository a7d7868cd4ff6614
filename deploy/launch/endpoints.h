// Hosts and ports: lists as fleetrun takes them, and which of them are this machine.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

struct Endpoint {
  std::string host;
  int port = 0;
  bool local = true;      // the host is this machine
  std::string path = {};  // of a Unix-domain socket; then there is no host and no port

  bool is_unix() const { return !path.empty(); }
  std::string Text() const {
    return is_unix() ? "unix:" + path : host + ":" + std::to_string(port);
  }
};

// "host:port", "host" (port 0) and, for --servers, "unix:/path" of a comma separated list; `local`
// is filled in.
// INVALID_ARGUMENT names `flag` and the entry.
StatusOr<std::vector<Endpoint>> ParseEndpoints(const std::string& flag, const std::string& list);

// Whether `host` is a loopback name or address, this machine's name, or an address of one of its
// interfaces. Asks no name server.
bool IsLocalHost(const std::string& host);

// This machine's name.
std::string HostName();

// Gives every entry with port 0 a port: if all entries are local, a free one;
// else `start_port` + its place among the entries of the same host (every host has to find the same
// numbers by itself). INVALID_ARGUMENT when two entries are equal afterwards; UNAVAILABLE when a
// local entry names a port that is in use, or there is no free one.
Status AssignPorts(const std::string& flag, int start_port, std::vector<Endpoint>& endpoints);

std::string JoinEndpoints(const std::vector<Endpoint>& endpoints);  // "a:1,b:2"

}  // namespace tandem::deploy
