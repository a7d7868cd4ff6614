// Limits that the host sets for a process (ulimit, setrlimit(2)). Errors name the limit that was
// reached.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem {

// Return RESOURCE_EXHAUSTED with `what`, the limit and a hint. TooManyFiles is for EMFILE,
// FileTooLarge for EFBIG.
Status TooManyFiles(const std::string& what);
Status FileTooLarge(const std::string& what);

// Lists limits of this process that are often too low. Example: "ulimit -v allows 204800000 bytes".
// Returns "" if memory has no limit and there are enough file descriptors.
std::string LowLimits();

// Prepares the process for errors at host limits; call it first in main. A write beyond `ulimit -f`
// then fails with EFBIG, and SIGXFSZ does not end the process. An uncaught exception for lack of
// memory or threads ends the process with kExitIo. `program` then prints one sentence to stderr:
// the resource, its use, the limit, a hint.
void NameHostLimits(const char* program);

}  // namespace tandem
