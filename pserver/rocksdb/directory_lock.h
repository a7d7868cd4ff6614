// Waits for the lock that lets only one process at a time open a RocksDB directory.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::pserver {

// Waits while another process, possibly a killed server that is still exiting, holds the lock of
// directory `dir` (common/base/predecessor.h). Returns OK if the lock is free. Also returns OK
// after any other error of the lock file, because the caller gets the same error when it opens the
// store. UNAVAILABLE: the directory is still locked at the end of the wait (the message says how to
// find the process). `called` is the name of the directory in messages, for example "checkpoint
// store". `choice` is the flag that selects another directory.
Status WaitForDirectoryLock(const char* called, const std::string& dir, const char* choice);

}  // namespace tandem::pserver
