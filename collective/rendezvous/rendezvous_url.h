// The rendezvous address as users write it.
#pragma once

#include <string>

#include "collective/rendezvous/host_port.h"
#include "common/base/status.h"

namespace tandem::collective {

struct RendezvousUrl {
  enum class Kind : uint8_t {
    kTcp,   // rank 0 listens at `address`
    kFile,  // rank 0 listens where a file in the directory `path` says
    kEtcd,  // rank 0 listens where a key in the etcd at `address` says
  };
  Kind kind = Kind::kTcp;
  HostPort address;
  std::string path;  // kFile: an absolute directory; kEtcd: prefix of the key, "" or "/..."
};

// Parses "host:port", "tcp://host:port", "file:///folder" or "etcd://host:port/prefix".
// INVALID_ARGUMENT: another form; the message has the expected ones.
StatusOr<RendezvousUrl> ParseRendezvousUrl(const std::string& text);
std::string ToString(const RendezvousUrl& url);

}  // namespace tandem::collective
