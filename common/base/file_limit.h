// How many files a process may have open.
#pragma once

#include <cstdint>

namespace tandem {

// Raises the soft limit to the hard one: 1024, which is usual, is too few for data in a thousand
// files, or for a thousand peers. Call early in main.
void RaiseFileLimit();

// How many files this process may have open.
uint64_t FileLimit();

}  // namespace tandem
