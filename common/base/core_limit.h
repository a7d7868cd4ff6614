// Whether a crash may leave the process's memory in a file.
#pragma once

namespace tandem {

// With `allowed` the soft limit of core files becomes the hard one, else none is written, also
// where a program takes them (core_pattern with a pipe): the memory holds secrets, keys and
// parameters. Call early in main; processes that are started later inherit it.
void LimitCoreDumps(bool allowed);

}  // namespace tandem
