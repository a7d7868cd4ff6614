// The lock that RocksDB has of a folder.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem {

// Waits while another process has the folder `dir`, "checkpoint store" as people call it, as that
// may be a server that was killed (common/base/predecessor.h); then UNAVAILABLE, saying how to find
// it. OK when the folder is free, or something else is the matter, which opening it tells.
// `choice`: the flag that names another one.
Status WaitForDirectoryLock(const char* called, const std::string& dir, const char* choice);

}  // namespace tandem
