// Limits that the host sets to a process (ulimit, setrlimit(2)), named where they are reached.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem {

// RESOURCE_EXHAUSTED: `what`, then the limit and what to do. For EMFILE and for EFBIG.
Status TooManyFiles(const std::string& what);
Status FileTooLarge(const std::string& what);

// The limits of this process that are often too low: "ulimit -v allows 204800000 bytes"; "" where
// none is set, and there are descriptors enough.
std::string LowLimits();

// Call first in main. A write beyond `ulimit -f` fails with EFBIG, and SIGXFSZ does not end the
// process. An exception that nothing catches and that says that memory or threads ran out ends the
// process with kExitIo and one sentence of `program` on stderr: what ran out, use, limit, hint.
void NameHostLimits(const char* program);

}  // namespace tandem
