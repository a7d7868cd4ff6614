// Stores rows of tables outside memory, in RocksDB. No write is synced. Open deletes the rows that
// an earlier process left in the directory.
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
  // Maximum memory of the rows in bytes. The buffers and the cache of RocksDB get a fraction of
  // this number in addition.
  uint64_t memory_bytes = uint64_t{1} << 30;
  // Number of bytes that a write must leave free on the disk (disk_space.h), for compactions.
  uint64_t free_bytes_min = uint64_t{512} << 20;
  // Called when rows can no longer be read or written. This process has then lost the rows outside
  // memory. May be called on any thread and more than once; must not block.
  std::function<void(const Status&)> on_failure = nullptr;
};

// The rows that one server stores outside memory, in one directory. Thread-safe.
class RocksdbColdStore final : public ColdStore {
 public:
  // Opens the directory and removes the RocksDB files of earlier processes. Waits while another
  // process has the directory open, like OpenRocksdbStorage. UNAVAILABLE: the other process does
  // not close the directory in time.
  static StatusOr<std::unique_ptr<RocksdbColdStore>> Open(const ColdStoreOptions& options);
  ~RocksdbColdStore() override;

  std::unique_ptr<ColdRows> NewTable(int64_t floats, int64_t brief) override;

  // For tests. set_free_bytes_min simulates a full disk. Flush writes RocksDB's memtables to files.
  void set_free_bytes_min(uint64_t bytes);
  Status Flush();

  struct Impl;

 private:
  explicit RocksdbColdStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::pserver
