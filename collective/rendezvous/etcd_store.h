// A rendezvous store in etcd.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "collective/rendezvous/rendezvous_store.h"

namespace tandem::collective {

// Makes a store whose announcement is the key PREFIX/JOB/rank0 in etcd (version 3, without TLS).
// The key has a lease of `ttl`, which a thread renews.
std::unique_ptr<RendezvousStore> MakeEtcdStore(const HostPort& server, const std::string& prefix,
                                               const std::string& job, const std::string& secret,
                                               Duration ttl = std::chrono::seconds(5));

}  // namespace tandem::collective
