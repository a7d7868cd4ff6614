// Writes to the database of a store, also after the disk had no room for a write.
//
// RocksDB recovers by itself from a log file that it could not write for lack of room: it flushes
// the memtable and begins a new log file. If the memtable is empty, RocksDB 7.8 keeps the failed
// log file, and the next sync of this file ends the process by an assertion. The writer therefore
// adds a record without content to a memtable that is empty.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/mutex.h"

namespace rocksdb {
class DB;
class Status;
class WriteBatch;
struct WriteOptions;
}  // namespace rocksdb

namespace tandem::pserver {

// Thread-safe after Open. Blocks for the disk. The database must outlive all calls.
class StoreWriter {
 public:
  // Must precede all other calls. Does not take ownership.
  void Open(rocksdb::DB* db);

  // Writes the batch. NoSpace: the disk has no room, and a later call may succeed.
  rocksdb::Status Write(const rocksdb::WriteOptions& options, rocksdb::WriteBatch* batch);
  // Syncs RocksDB's log files. Absent: the last write found no room, so RocksDB must not sync the
  // files now. The caller can sync them by their names.
  std::optional<rocksdb::Status> SyncLogFiles();

 private:
  // Returns whether the memtable is empty, or so full that the next write begins another one.
  bool NeedsRecord() const TD_REQUIRES(mu_);

  Mutex mu_;
  rocksdb::DB* db_ TD_GUARDED_BY(mu_) = nullptr;
  uint64_t memtable_bytes_ TD_GUARDED_BY(mu_) = 0;  // size at which RocksDB begins another memtable
  bool had_no_room_ TD_GUARDED_BY(mu_) = false;     // result of the last write
};

}  // namespace tandem::pserver
