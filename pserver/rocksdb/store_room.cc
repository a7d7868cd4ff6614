#include "pserver/rocksdb/store_room.h"

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/os/fd.h"
#include "common/os/files.h"
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

StatusOr<uint64_t> SyncRecordFiles(const std::string& dir) {
  uint64_t bytes = 0;
  TD_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDir(dir));
  for (const std::string& name : names) {
    if (!name.ends_with(".log")) continue;
    const std::string path = absl::StrCat(dir, "/", name);
    const Fd file(open(path.c_str(), O_RDWR | O_CLOEXEC));
    // RocksDB has removed the file: table files have its records.
    if (!file.valid() && errno == ENOENT) continue;
    if (!file.valid() || fdatasync(file.get()) != 0) {
      return Unavailable("cannot sync %s: %s [TD2110]; hint: check the disk", path,
                         ErrnoText(errno));
    }
    struct stat info {};
    if (fstat(file.get(), &info) == 0) bytes += static_cast<uint64_t>(info.st_size);
  }
  return bytes;
}

uint64_t RoomFor(rocksdb::DB& db, uint64_t bytes) {
  uint64_t memtables = 0;
  (void)db.GetIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &memtables);
  return memtables + bytes + kOwnBytes;
}

}  // namespace tandem::pserver
