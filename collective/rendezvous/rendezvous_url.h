// The address of a rendezvous, as users write it.
#pragma once

#include <string>

#include "collective/rendezvous/host_port.h"
#include "common/base/status.h"

namespace tandem::collective {

struct RendezvousUrl {
  enum class Kind : uint8_t {
    kTcp,   // tcp: the address of rank 0 is `address`
    kFile,  // the address of rank 0 is in a file in the directory `path`
    kEtcd,  // the address of rank 0 is the value of a key in the etcd at `address`
  };
  Kind kind = Kind::kTcp;
  HostPort address;
  std::string path;  // kFile: an absolute directory; kEtcd: prefix of the key, "" or "/..."
  bool tls = false;  // kEtcd: the connection to etcd uses TLS (etcds://)
};

// Parses "host:port", "tcp://host:port", "file:///directory", "etcd://host:port/prefix" or
// "etcds://host:port/prefix".
// INVALID_ARGUMENT: `text` has another form; the message lists the expected forms.
StatusOr<RendezvousUrl> ParseRendezvousUrl(const std::string& text);
std::string ToString(const RendezvousUrl& url);

}  // namespace tandem::collective
