// A rendezvous store in etcd.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "collective/rendezvous/rendezvous_store.h"

namespace tandem::collective {

// Makes a store whose announcement is the key PREFIX/JOB/rank0 in etcd (version 3). The key has a
// lease of `ttl`, which a thread renews.
// REQUIRES: url.kind is kEtcd.
std::unique_ptr<RendezvousStore> MakeEtcdStore(const RendezvousUrl& url, const std::string& job,
                                               const std::string& secret,
                                               const EtcdAccess& access = {},
                                               Duration ttl = std::chrono::seconds(5));

}  // namespace tandem::collective
