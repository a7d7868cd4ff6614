// What the RocksDB of the checkpoint store takes of the disk beyond what it is given, so that it is
// never given what does not fit: as Debian builds it, it may abort the process on a full disk
// (measured), and after an error it writes nothing more.
//
// It writes each change to its log, and once more when a memtable becomes a file. It compacts only
// when told: the values of pushes lie there until a checkpoint drops them, and to merge them before
// would take as much room again. Files are not made longer ahead of time.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace rocksdb {
class DB;
struct Options;
}  // namespace rocksdb

namespace tandem {

// With less the folder is not opened: RocksDB's own files, and records of a few bytes.
inline constexpr uint64_t kStoreBytesMin = 8 << 20;

rocksdb::Options StoreOptions();
// The same for a folder whose logs may not fit once more: they are not made files when it is
// opened.
rocksdb::Options TightStoreOptions(uint64_t log_bytes);

// What `db` may write to the disk when `bytes` are put into it.
uint64_t RoomFor(rocksdb::DB& db, uint64_t bytes);

// Drops from the files what was deleted. `kept`: of the range from `begin` to `end`, where nearly
// all lies, so much is not deleted. Does nothing where that is not worth it, or `free` bytes leave
// no room for it.
Status DropDeleted(rocksdb::DB& db, const std::string& begin, const std::string& end,
                   uint64_t free);

}  // namespace tandem
