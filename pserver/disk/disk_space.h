// Checks for free disk space before RocksDB writes. The disk must never become full while RocksDB
// writes: Debian's build then aborts the process (measured).
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem::pserver {

StatusOr<uint64_t> FreeBytes(const std::string& what, const std::string& dir);

// Returns OK if at least `needed` bytes are free on the disk of `dir`. RESOURCE_EXHAUSTED: fewer
// bytes are free; the message is that of CheckDiskSpace.
Status CheckFree(const std::string& what, const std::string& dir, uint64_t needed);

// Returns OK if RocksDB can write `bytes` bytes to `dir` and `floor` bytes stay free. RocksDB needs
// 3 * `bytes` bytes: for its log, for the resulting table file, and for the older table file until
// a compaction.
// RESOURCE_EXHAUSTED: "cannot write to WHAT DIR: the disk has 17 free bytes, but 18 bytes are
// needed [TD2107]; nothing was written; hint: ...".
Status CheckDiskSpace(const std::string& what, const std::string& dir, uint64_t floor,
                      uint64_t bytes);

}  // namespace tandem::pserver
