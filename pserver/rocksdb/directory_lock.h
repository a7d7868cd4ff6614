// The lock of RocksDB on a directory.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::pserver {

// Waits while another process, possibly a killed server, holds the directory `dir`
// (common/base/predecessor.h). OK: the directory is free, or it has another problem that opening
// will report. UNAVAILABLE: it stays locked (the message says how to find the process). `called`:
// name for users, "checkpoint store". `choice`: the flag that selects another directory.
Status WaitForDirectoryLock(const char* called, const std::string& dir, const char* choice);

}  // namespace tandem::pserver
