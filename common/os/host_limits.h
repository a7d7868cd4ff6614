// Limits of the host for a process (ulimit, setrlimit(2)). Errors name the limit that was reached.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem {

// Return RESOURCE_EXHAUSTED. The message has `what`, the limit that was reached and a hint. Use
// TooManyFiles for errno EMFILE, and FileTooLarge for EFBIG.
Status TooManyFiles(const std::string& what);
Status FileTooLarge(const std::string& what);

// Converts the errno `error` of a call on no file to a Status: a call for a socket, a pipe, a
// process, a thread or memory. `what` is the call as "cannot VERB OBJECT". RESOURCE_EXHAUSTED: the
// process or the host has no more of it. UNAVAILABLE: any other error.
Status SystemError(const std::string& what, int error);

// Lists this process's limits that are often too low. Example: "ulimit -v allows 204800000 bytes".
// Returns "" if the memory is unlimited and the limit on file descriptors is high enough.
std::string LowLimits();

// Makes errors at host limits readable. Call this function first in main. From then on a write
// beyond `ulimit -f` fails with EFBIG; without this call, SIGXFSZ would end the process. After an
// uncaught exception for lack of memory or threads, or for another failed call to the operating
// system, the process prints one sentence to stderr and exits with kExitIo. The sentence has
// `program`, the resource or the call, its use and limit if they are known, and a hint.
void NameHostLimits(const char* program);

}  // namespace tandem
