// Stores rows of tables outside memory, in RocksDB. Nothing is synced. The directory is emptied
// when it is opened.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "pserver/tables/rows/cold_rows.h"

namespace tandem::pserver {

struct ColdStoreOptions {
  std::string dir;  // directory of RocksDB; created if missing
  // Maximum memory of the rows in bytes. The memory of RocksDB is a fraction of this limit.
  uint64_t memory_bytes = uint64_t{1} << 30;
  // Minimum of free bytes on the disk (disk_space.h). Only compactions use these bytes.
  uint64_t free_bytes_min = uint64_t{512} << 20;
  // Called when rows can no longer be read or written. The rows outside memory are then lost to
  // this process. May be called on any thread and more than once; must not block.
  std::function<void(const Status&)> on_failure = nullptr;
};

// The rows that one server stores outside memory, in one directory. Thread-safe.
class RocksdbColdStore final : public ColdStore {
 public:
  // Opens the directory and removes earlier RocksDB files. Waits while another process has the
  // directory open, as OpenRocksdbStorage does. UNAVAILABLE: another process keeps it open.
  static StatusOr<std::unique_ptr<RocksdbColdStore>> Open(const ColdStoreOptions& options);
  ~RocksdbColdStore() override;

  std::unique_ptr<ColdRows> NewTable(int64_t floats, int64_t brief) override;

  // For tests. set_free_bytes_min simulates a full disk; Flush writes RocksDB's memory to files.
  void set_free_bytes_min(uint64_t bytes);
  Status Flush();

  struct Impl;

 private:
  explicit RocksdbColdStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::pserver
