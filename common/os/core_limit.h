// Allows or prevents core dumps of the process.
#pragma once

namespace tandem {

// `allowed`: raises the soft limit of core files to the hard limit. Otherwise prevents core dumps,
// also where a program receives them (core_pattern with a pipe), because the memory holds secrets,
// keys and parameters. Call it early in main; child processes inherit the limit.
void LimitCoreDumps(bool allowed);

}  // namespace tandem
