// The lock by which RocksDB lets only one process open a directory.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::pserver {

// Waits while another process, possibly a killed server, holds the lock of directory `dir`
// (common/base/predecessor.h). Returns OK if the lock is free. Also returns OK after any other
// error of the lock file; the caller gets this error when it opens the store. UNAVAILABLE: the
// directory stays locked (the message says how to find the process). `called` is the name of the
// directory in messages, for example "checkpoint store". `choice` is the flag that selects another
// directory.
Status WaitForDirectoryLock(const char* called, const std::string& dir, const char* choice);

}  // namespace tandem::pserver
