// Disk space that the RocksDB of the checkpoint store needs in addition to its input. RocksDB must
// never receive more data than fits on the disk. Debian's build may abort the process on a full
// disk (measured), and after an error RocksDB writes nothing more.
//
// RocksDB writes each change to its log, and again when a memtable becomes a file. It compacts only
// on request: the values of pushes stay until a checkpoint drops them, and an earlier merge would
// need the same room again. Files are not preallocated.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace rocksdb {
class DB;
struct Options;
}  // namespace rocksdb

namespace tandem::pserver {

// Minimum number of free bytes to open the directory: RocksDB's own files, and records of a few
// bytes.
inline constexpr uint64_t kStoreBytesMin = 8 << 20;

rocksdb::Options StoreOptions();
// Options for a directory if the disk has no room to write its logs to files. With these options,
// opening the directory does not write the logs to files.
rocksdb::Options TightStoreOptions(uint64_t log_bytes);

// Maximum bytes that `db` writes to the disk for a write of `bytes` bytes.
uint64_t RoomFor(rocksdb::DB& db, uint64_t bytes);

// Removes deleted entries from the files. Nearly all entries that remain are between the keys
// `begin` and `end`. Does nothing if there are few files, or if `free` bytes leave no room for it.
Status DropDeleted(rocksdb::DB& db, const std::string& begin, const std::string& end,
                   uint64_t free);

}  // namespace tandem::pserver
