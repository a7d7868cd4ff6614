// The store of a server's checkpoints and log: one RocksDB with a file of values per checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "pserver/storage/storage.h"

namespace tandem {

class CheckpointThrottle;

// RocksDB in folder `dir` (made when missing). While another process has it open it waits
// for 10 s, as that may be one that was killed and is still being taken apart; then UNAVAILABLE.
// `free_bytes_min`: CheckRoom leaves so much free, and what is written half of it; RocksDB's own
// needs come on top (store_room.h). With less than kStoreBytesMin free: RESOURCE_EXHAUSTED. `pace`:
// by which images are written; null: as fast as it goes.
StatusOr<std::unique_ptr<Storage>> OpenRocksdbStorage(const std::string& dir,
                                                      CheckpointThrottle* pace = nullptr,
                                                      uint64_t free_bytes_min = 64 << 20);

}  // namespace tandem
