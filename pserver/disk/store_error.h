// Errors of system calls on the files of a server's data directory.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::pserver {

// Converts the errno `error` of a call to a Status. `what` is the call as "cannot VERB FILE".
// RESOURCE_EXHAUSTED: the disk is full, or the process has too many open files. UNAVAILABLE: any
// other error, after which the server must be started again.
Status StoreError(const std::string& what, int error);

// The two cases, with the text of the failed operation.
Status DiskFull(const std::string& text);
Status StoreFailed(const std::string& text);

}  // namespace tandem::pserver
