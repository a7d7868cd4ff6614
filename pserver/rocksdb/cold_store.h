// Rows outside memory, stored in RocksDB. Nothing is synced, and the directory is emptied when it
// is opened.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "pserver/tables/rows/cold_rows.h"

namespace tandem::pserver {

struct ColdStoreOptions {
  std::string dir;  // created if missing
  // Limit of the rows in memory; RocksDB uses a fraction of it.
  uint64_t memory_bytes = uint64_t{1} << 30;
  // Always stays free on the disk (disk_space.h); compactions use it.
  uint64_t free_bytes_min = uint64_t{512} << 20;
  // Called when rows can no longer be read or written: the rows outside memory are lost to this
  // process. May be called on any thread and more than once; must not block.
  std::function<void(const Status&)> on_failure = nullptr;
};

// The cold rows of one server in one directory. Thread-safe.
class RocksdbColdStore final : public ColdStore {
 public:
  // Removes earlier RocksDB files. Waits while another process has the directory open, as
  // OpenRocksdbStorage does. UNAVAILABLE: it stays open.
  static StatusOr<std::unique_ptr<RocksdbColdStore>> Open(const ColdStoreOptions& options);
  ~RocksdbColdStore() override;

  std::unique_ptr<ColdRows> NewTable(int64_t floats, int64_t brief) override;

  // For tests: simulate a full disk, and write RocksDB's memory to files.
  void set_free_bytes_min(uint64_t bytes);
  Status Flush();

  struct Impl;

 private:
  explicit RocksdbColdStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::pserver
