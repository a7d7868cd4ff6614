#include "pserver/rocksdb/store_room.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "common/base/require.h"
#include "pserver/rocksdb/io_errors.h"

namespace tandem::pserver {
namespace {

constexpr uint64_t kMemtableBytes = 16 << 20;
// Maximum number of memtables: RocksDB fills one memtable while it writes the others to files.
constexpr int kMemtables = 4;
constexpr uint64_t kFilesWorth = 4;      // minimum number of files for a compaction
constexpr uint64_t kOwnBytes = 1 << 20;  // bytes for the manifest, options and RocksDB's messages

uint64_t NewFiles(rocksdb::DB& db) {
  std::string text;
  uint64_t files = 0;
  (void)db.GetProperty(rocksdb::DB::Properties::kNumFilesAtLevelPrefix + "0", &text);
  return absl::SimpleAtoi(text, &files) ? files : 0;
}

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
  options.disable_auto_compactions = true;
  options.allow_fallocate = false;
  // The log files have all records, except those without content (StoreWriter).
  options.avoid_flush_during_shutdown = true;
  options.keep_log_file_num = 2;
  options.compression = rocksdb::kNoCompression;  // because gradients do not compress
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.listeners.push_back(NoteIoErrors());
  return options;
}

rocksdb::Options TightStoreOptions(uint64_t log_bytes) {
  rocksdb::Options options = StoreOptions();
  options.avoid_flush_during_recovery = true;
  // The memtable must hold the whole log: RocksDB writes a full memtable to a file even during
  // recovery.
  options.write_buffer_size = std::max(kMemtableBytes, 4 * log_bytes);
  options.max_total_wal_size = std::max<uint64_t>(options.max_total_wal_size, 4 * log_bytes);
  return options;
}

uint64_t RoomFor(rocksdb::DB& db, uint64_t bytes) {
  uint64_t memtables = 0;
  (void)db.GetIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &memtables);
  return memtables + 2 * bytes + kOwnBytes;
}

Status DropDeleted(rocksdb::DB& db, const std::string& begin, const std::string& end,
                   uint64_t free) {
  TD_REQUIRE(begin <= end);
  if (NewFiles(db) < kFilesWorth) return OkStatus();
  const rocksdb::Range range(begin, end);
  uint64_t kept = 0;
  rocksdb::SizeApproximationOptions with_files;
  with_files.include_files = true;
  rocksdb::Status status =
      db.GetApproximateSizes(with_files, db.DefaultColumnFamily(), &range, 1, &kept);
  const bool fits = free >= RoomFor(db, kept) + kStoreBytesMin;
  if (status.ok() && fits) status = db.CompactRange({}, nullptr, nullptr);
  return status.ok() ? OkStatus() : Unavailable("%s", status.ToString());
}

}  // namespace tandem::pserver
