// A rendezvous in etcd.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "collective/rendezvous/rendezvous_store.h"

namespace tandem::collective {

// The key PREFIX/JOB/rank0 in etcd (version 3, without TLS), under a lease of `ttl`. A thread
// renews the lease.
std::unique_ptr<RendezvousStore> MakeEtcdStore(const HostPort& server, const std::string& prefix,
                                               const std::string& job, const std::string& secret,
                                               Duration ttl = std::chrono::seconds(5));

}  // namespace tandem::collective
