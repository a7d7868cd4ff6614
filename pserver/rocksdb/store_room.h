// Disk space that the RocksDB of the checkpoint store uses beyond its input. It must never receive
// more than fits: Debian's build may abort the process on a full disk (measured), and after an
// error it writes nothing more.
//
// RocksDB writes each change to its log, and again when a memtable becomes a file. It compacts only
// on request: the values of pushes stay until a checkpoint drops them, and merging them earlier
// would need the same room again. Files are not preallocated.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace rocksdb {
class DB;
struct Options;
}  // namespace rocksdb

namespace tandem::pserver {

// Minimum free bytes to open the directory: RocksDB's own files, and records of a few bytes.
inline constexpr uint64_t kStoreBytesMin = 8 << 20;

rocksdb::Options StoreOptions();
// Options for a directory whose logs may not fit a second time: opening it does not write the logs
// to files.
rocksdb::Options TightStoreOptions(uint64_t log_bytes);

// Bytes that `db` may write to the disk for a write of `bytes`.
uint64_t RoomFor(rocksdb::DB& db, uint64_t bytes);

// Removes deleted entries from the files. Nearly all of them are between `begin` and `end`. Does
// nothing if it is not worth it or `free` bytes leave no room for it.
Status DropDeleted(rocksdb::DB& db, const std::string& begin, const std::string& end,
                   uint64_t free);

}  // namespace tandem::pserver
