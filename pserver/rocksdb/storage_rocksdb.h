// The store of a server's checkpoints and WAL: one RocksDB, and one value file per checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "pserver/storage/storage.h"

namespace tandem::pserver {

class CheckpointThrottle;

struct StoreSettings {
  // Number of bytes that CheckRoom requires to be free, in addition to the bytes that RocksDB needs
  // (store_room.h). A write requires half of this number.
  uint64_t free_bytes_min = 64 << 20;
  // Bytes of log entries that stay in the log although a checkpoint contains them, and at most half
  // of the free bytes of the disk; 0: none.
  uint64_t log_keep_bytes = 0;
};

// Opens RocksDB in directory `dir`, which is created if missing. Waits up to 10 s while another
// process has the directory open, because a killed process may still be exiting. UNAVAILABLE: the
// directory is still open after this time. RESOURCE_EXHAUSTED: fewer than kStoreBytesMin bytes are
// free. `pace` limits the rate at which snapshots are written; null: unlimited.
StatusOr<std::unique_ptr<Storage>> OpenRocksdbStorage(const std::string& dir,
                                                      CheckpointThrottle* pace = nullptr,
                                                      const StoreSettings& settings = {});

}  // namespace tandem::pserver
