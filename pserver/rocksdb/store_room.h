// Disk space that the RocksDB of the checkpoint store needs in addition to its input. RocksDB must
// never receive more data than fits on the disk. Debian's build may abort the process on a full
// disk (measured), and after an error RocksDB writes nothing more.
//
// RocksDB writes each change to its log, and again when a memtable becomes a file. RocksDB compacts
// only on request. The values of pushes stay until a checkpoint drops them. A compaction before the
// checkpoint would free nothing, but would need room for a copy of these values. Files are not
// preallocated.
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
// Options for a directory if the disk has no room for the changes of RocksDB's logs as table files.
// With these options, RocksDB keeps these changes in memory when it opens the directory.
rocksdb::Options TightStoreOptions(uint64_t log_bytes);

// Maximum bytes that `db` writes to the disk for a write of `bytes` bytes.
uint64_t RoomFor(rocksdb::DB& db, uint64_t bytes);

// Removes deleted entries from the files by a compaction. The keys `begin` and `end` are the range
// of nearly all entries that remain. Does nothing if there are few files, or if `free` bytes are
// too few for the compaction.
Status DropDeleted(rocksdb::DB& db, const std::string& begin, const std::string& end,
                   uint64_t free);

}  // namespace tandem::pserver
