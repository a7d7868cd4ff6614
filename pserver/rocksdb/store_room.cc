#include "pserver/rocksdb/store_room.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include "pserver/rocksdb/io_errors.h"

namespace tandem::pserver {
namespace {

constexpr uint64_t kMemtableBytes = 2 << 20;
// Maximum number of memtables: RocksDB fills one memtable while it writes the others to files.
constexpr int kMemtables = 2;
// Bytes for the manifest, options, RocksDB's messages, and a compaction of the files.
constexpr uint64_t kOwnBytes = 4 << 20;

}  // namespace

rocksdb::Options StoreOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  // By default, RocksDB silently drops all records after a damaged record. In this mode, RocksDB
  // reports damage as an error, except in the newest record, which a crash may have left
  // incomplete.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.paranoid_checks = true;
  options.write_buffer_size = kMemtableBytes;
  options.max_write_buffer_number = kMemtables;
  options.max_total_wal_size = kMemtables * kMemtableBytes;
  options.allow_fallocate = false;
  // The log files have all records, except those without content (StoreWriter).
  options.avoid_flush_during_shutdown = true;
  options.keep_log_file_num = 2;
  options.compression = rocksdb::kNoCompression;
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.listeners.push_back(NoteIoErrors());
  return options;
}

uint64_t RoomFor(rocksdb::DB& db, uint64_t bytes) {
  uint64_t memtables = 0;
  (void)db.GetIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &memtables);
  return memtables + bytes + kOwnBytes;
}

}  // namespace tandem::pserver
