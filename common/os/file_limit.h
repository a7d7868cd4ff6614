// The limit on the number of open files of a process.
#pragma once

#include <cstdint>

namespace tandem {

// Raises the soft limit on open files to the hard limit. The usual limit of 1024 is too low for a
// thousand data files or a thousand peers. Call this function early in main.
void RaiseFileLimit();

// Returns the number of files that this process may have open.
uint64_t FileLimit();

}  // namespace tandem
