// A rendezvous in a directory that all hosts share.
#pragma once

#include <memory>
#include <string>

#include "collective/rendezvous/rendezvous_store.h"

namespace tandem::collective {

// Files in a directory. JOB.rank0 holds the announcement, under a lock that ends with its process,
// so the announcement of a dead process is detected. JOB.lock, which stays, keeps a second rank 0
// out. The file system must support locks (fcntl) across all hosts.
std::unique_ptr<RendezvousStore> MakeFileStore(const std::string& dir, const std::string& job,
                                               const std::string& secret);

}  // namespace tandem::collective
