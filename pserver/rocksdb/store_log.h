// The update log of a store: its entries are in files, and what belongs to it is in RocksDB.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "common/base/status.h"
#include "pserver/disk/persistent_counter.h"
#include "pserver/log_files/log_files.h"
#include "pserver/state/wal.h"
#include "pserver/storage/scanned_entry.h"

namespace rocksdb {
class DB;
class WriteBatch;
}  // namespace rocksdb

namespace tandem::pserver {

class StoreWriter;

// Thread-safe after Open. The functions for entries are those of Storage.
class StoreLog {
 public:
  // `keep_bytes`: bytes of entries that stay although a checkpoint contains them.
  StoreLog(std::string dir, uint64_t keep_bytes);
  // `checkpoint`: number of the last entry that the checkpoint contains; absent: there is no
  // checkpoint. `free_bytes`: free bytes of the disk. Moves the log of an earlier version into
  // files. `db` and `writer` must outlive this object. RESOURCE_EXHAUSTED: the disk has no room for
  // that; nothing changed.
  Status Open(rocksdb::DB& db, StoreWriter& writer, std::optional<uint64_t> checkpoint,
              uint64_t free_bytes);

  StatusOr<size_t> Append(std::span<const LogEntry> entries, bool sync);
  Status Sync();
  Status Read(uint64_t after, const std::function<Status(LogEntry)>& take) const;
  Status Scan(uint64_t first, const ScanSink& take) const;

  // ---- Changes together with a checkpoint -------------------------------------------------------
  // The first function of each pair adds the change to the batch of the checkpoint. The caller
  // writes the batch and then calls the second function, which frees the space.

  // Removes the entries that a checkpoint contains, except those that the log keeps. `last`: last
  // entry in the checkpoint. `free_bytes`: free bytes of the disk; entries are kept in at most half
  // of them. Returns the number of the first entry that stays.
  uint64_t AddRemoval(uint64_t last, uint64_t free_bytes, rocksdb::WriteBatch* batch) const;
  void OnRemoval(uint64_t first);
  // Removes all entries and restores. The next entry may have any number. `last`: last entry in the
  // checkpoint; absent: there is none. Returns the generation of the new log.
  uint64_t AddClear(std::optional<uint64_t> last, rocksdb::WriteBatch* batch) const;
  void OnClear(uint64_t generation);

  // Records that no entry needs to be in the log, because the state will be replaced.
  Status ForgetSynced() { return synced_.Note(0); }

 private:
  Status NoteSynced(uint64_t number);

  const std::string dir_;
  const uint64_t keep_bytes_;
  // Number of the last synced entry. Read uses it to detect the loss of synced entries: the end of
  // the last file may be missing.
  PersistentCounter synced_;
  LogFiles files_;
  rocksdb::DB* db_ = nullptr;
  std::atomic<uint64_t> first_ = 0;  // entries with lower numbers are removed
};

}  // namespace tandem::pserver
