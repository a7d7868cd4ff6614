// Where ranks are told to meet, as people write it.
#pragma once

#include <string>

#include "collective/rendezvous/host_port.h"
#include "common/base/status.h"

namespace tandem {

struct RendezvousUrl {
  enum class Kind : uint8_t {
    kTcp,   // rank 0 listens at `address`
    kFile,  // rank 0 listens where a file of the folder `path` says
    kEtcd,  // rank 0 listens where a key of the etcd at `address` says
  };
  Kind kind = Kind::kTcp;
  HostPort address;
  std::string path;  // kFile: an absolute folder; kEtcd: what its key begins with, "" or "/..."
};

// "host:port", "tcp://host:port", "file:///folder" or "etcd://host:port/prefix". INVALID_ARGUMENT
// with what was expected.
StatusOr<RendezvousUrl> ParseRendezvousUrl(const std::string& text);
std::string ToString(const RendezvousUrl& url);

}  // namespace tandem
