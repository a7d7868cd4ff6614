// Rows of tables that lie outside memory, in RocksDB. It extends a cache and keeps nothing: what
// lasts are checkpoints and the log (storage.h), so nothing here is synced, and a folder is emptied
// when it is opened.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/row_store.h"

namespace tandem {

struct ColdStoreOptions {
  std::string dir;                            // made when missing
  uint64_t memory_bytes = uint64_t{1} << 30;  // of the rows in memory: RocksDB's own is a share
  // So much stays free on the disk in any case (disk_space.h); compactions work in it.
  uint64_t free_bytes_min = uint64_t{512} << 20;
  // Rows cannot be read or written any more: those outside memory are lost to this process. On any
  // thread, perhaps more than once; must not block.
  std::function<void(const Status&)> on_failure = nullptr;
};

// The folder of one server. Thread-safe.
class ColdStore {
 public:
  // Removes what RocksDB left there before. While another process has it open it
  // waits, as OpenRocksdbStorage does; then UNAVAILABLE.
  static StatusOr<std::unique_ptr<ColdStore>> Open(const ColdStoreOptions& options);
  ~ColdStore();

  // For tests: a disk that fills up, and what RocksDB holds in memory written to files.
  void set_free_bytes_min(uint64_t bytes);
  Status Flush();

 private:
  friend class ColdRows;
  struct Impl;
  explicit ColdStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct ColdRow {
  uint64_t id = 0;
  RowUse use;
  uint32_t shrinks = 0;          // for whoever put it
  const void* values = nullptr;  // floats, not aligned
  bool brief = false;            // row_store.h
};

// The rows of one table there. Not thread-safe.
class ColdRows {
 public:
  using Take = std::function<Status(const ColdRow&)>;

  // Rows of `floats` values, brief ones of `brief`. `store` must outlive this.
  ColdRows(ColdStore& store, int64_t floats, int64_t brief = 0);
  ~ColdRows();  // removes them

  // Adds or replaces all of them, or fails and changes nothing: RESOURCE_EXHAUSTED naming the
  // folder when less than the floor would stay free.
  Status Put(std::span<const ColdRow> rows);
  // Calls `take` for those of `ids` that are there. Orders `ids` as they lie there.
  // DATA_LOSS naming the folder when a row is damaged.
  Status Get(std::vector<uint64_t>& ids, const Take& take) const;
  // ... for those of a bucket (common/tensor/row_buckets.h), by ascending ids.
  Status Scan(int bucket, const Take& take) const;
  // Those that are not there do no harm.
  Status Remove(std::span<const uint64_t> ids);

 private:
  Status Read(uint64_t id, const char* record, size_t bytes, const Take& take) const;

  ColdStore::Impl& store_;
  const size_t record_bytes_, brief_bytes_;
  const uint32_t table_;  // its number, in front of the keys
};

}  // namespace tandem
