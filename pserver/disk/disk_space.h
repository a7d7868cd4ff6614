// Room on a disk, asked for before RocksDB writes: as Debian builds it, it aborts the process on a
// full disk (measured), so it must never see one.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem {

StatusOr<uint64_t> FreeBytes(const std::string& what, const std::string& dir);

// OK when at least `needed` bytes are free; else as CheckDiskSpace.
Status CheckFree(const std::string& what, const std::string& dir, uint64_t needed);

// OK when RocksDB can write `bytes` to `dir` and `floor` bytes stay free: it needs room for its
// log, for the table that becomes of it, and for the older one until that is compacted away. Else
// RESOURCE_EXHAUSTED: "WHAT DIR: 17 bytes free, 18 needed [TD2107]; nothing was written; hint:
// ...".
Status CheckDiskSpace(const std::string& what, const std::string& dir, uint64_t floor,
                      uint64_t bytes);

}  // namespace tandem
