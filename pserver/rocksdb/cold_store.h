// Rows outside memory in RocksDB. Nothing here is synced, and a folder is emptied when it is
// opened.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "pserver/tables/cold_rows.h"

namespace tandem {

struct ColdStoreOptions {
  std::string dir;                            // made when missing
  uint64_t memory_bytes = uint64_t{1} << 30;  // of the rows in memory: RocksDB's own is a share
  // This much stays free on the disk in any case (disk_space.h); compactions work in it.
  uint64_t free_bytes_min = uint64_t{512} << 20;
  // Called when rows cannot be read or written any more: those outside memory are lost to this
  // process. On any thread, perhaps more than once; must not block.
  std::function<void(const Status&)> on_failure = nullptr;
};

// The folder of one server. Thread-safe.
class RocksdbColdStore final : public ColdStore {
 public:
  // Removes what RocksDB left there before. While another process has the folder open it waits, as
  // OpenRocksdbStorage does; then UNAVAILABLE.
  static StatusOr<std::unique_ptr<RocksdbColdStore>> Open(const ColdStoreOptions& options);
  ~RocksdbColdStore() override;

  std::unique_ptr<ColdRows> NewTable(int64_t floats, int64_t brief) override;

  // For tests: a disk that fills up, and what RocksDB holds in memory written to files.
  void set_free_bytes_min(uint64_t bytes);
  Status Flush();

  struct Impl;

 private:
  explicit RocksdbColdStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
