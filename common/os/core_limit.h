// Allows or prevents core dumps of the process.
#pragma once

namespace tandem {

// Allows core dumps if `allowed` is true: it raises the soft limit of core files to the hard limit.
// Otherwise prevents core dumps, because the memory contains secrets, keys and parameters. This
// includes dumps that the kernel pipes to a program (core_pattern). Call it early in main; child
// processes inherit the limit.
void LimitCoreDumps(bool allowed);

}  // namespace tandem
