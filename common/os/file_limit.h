// The limit on open files of a process.
#pragma once

#include <cstdint>

namespace tandem {

// Raises the soft limit to the hard limit. The usual 1024 is too low for data in a thousand files,
// or for a thousand peers. Call it early in main.
void RaiseFileLimit();

// Returns the number of files that this process may have open.
uint64_t FileLimit();

}  // namespace tandem
