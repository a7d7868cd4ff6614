// Allows or prevents core dumps of the process.
#pragma once

namespace tandem {

// If `allowed`, raises the soft limit of core files to the hard limit. Otherwise prevents core
// dumps, because the memory holds secrets, keys and parameters. This includes dumps that the kernel
// pipes to a program (core_pattern). Call it early in main; child processes inherit the limit.
void LimitCoreDumps(bool allowed);

}  // namespace tandem
