// The store of a server's checkpoints and WAL: one RocksDB, and a file of values per checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "pserver/storage/storage.h"

namespace tandem::pserver {

class CheckpointThrottle;

// Opens RocksDB in directory `dir`, which is created if missing. Waits 10 s while another process
// has the directory open, because a killed process may still be exiting. UNAVAILABLE: the process
// keeps it open. `free_bytes_min`: CheckRoom keeps this much free, writes keep half of it;
// RocksDB's own needs are added (store_room.h). RESOURCE_EXHAUSTED: less than kStoreBytesMin is
// free. `pace`: limits the rate at which snapshots are written; null: unlimited.
StatusOr<std::unique_ptr<Storage>> OpenRocksdbStorage(const std::string& dir,
                                                      CheckpointThrottle* pace = nullptr,
                                                      uint64_t free_bytes_min = 64 << 20);

}  // namespace tandem::pserver
