// A rendezvous store in a directory that all hosts share.
#pragma once

#include <memory>
#include <string>

#include "collective/rendezvous/rendezvous_store.h"

namespace tandem::collective {

// Makes a store of two files in `dir`. JOB.rank0 contains the announcement. Rank 0 holds a lock on
// this file until its process ends, so other ranks detect the announcement of a dead process.
// JOB.lock prevents a second rank 0 and is never removed. The file system must support locks
// (fcntl) across all hosts.
std::unique_ptr<RendezvousStore> MakeFileStore(const std::string& dir, const std::string& job,
                                               const std::string& secret);

}  // namespace tandem::collective
