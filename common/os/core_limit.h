// Allows or prevents core dumps of the process.
#pragma once

namespace tandem {

// If `allowed` is true, raises the soft limit of core files to the hard limit. If `allowed` is
// false, prevents core dumps, including dumps that the kernel pipes to a program (core_pattern),
// because the memory contains secrets, keys and parameters. Call this function early in main; child
// processes inherit the limit.
void LimitCoreDumps(bool allowed);

}  // namespace tandem
