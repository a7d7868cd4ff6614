// Computes the disk space that the RocksDB of the checkpoint store needs in addition to its input.
// RocksDB must never receive more data than fits on the disk: Debian's build may abort the process
// on a full disk (measured), and RocksDB writes nothing more after an error.
//
// RocksDB writes each change to its log, and again when a memtable becomes a file. RocksDB compacts
// only when DropDeleted requests a compaction. The values of pushes stay in RocksDB until a
// checkpoint deletes them. A compaction before the checkpoint would free nothing, but would need
// room for a copy of these values. Files are not preallocated.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace rocksdb {
class DB;
struct Options;
}  // namespace rocksdb

namespace tandem::pserver {

// Minimum number of free bytes to open the directory: space for RocksDB's own files and for records
// of a few bytes.
inline constexpr uint64_t kStoreBytesMin = 8 << 20;

rocksdb::Options StoreOptions();
// Options for opening a directory if the disk has no room to write the changes in RocksDB's logs to
// table files. With these options, RocksDB keeps the changes in memory. `log_bytes`: size of the
// logs.
rocksdb::Options TightStoreOptions(uint64_t log_bytes);

// Returns the maximum number of bytes that `db` writes to the disk for a write of `bytes` bytes.
uint64_t RoomFor(rocksdb::DB& db, uint64_t bytes);

// Removes deleted entries from the files by a compaction. [begin, end) is the key range of nearly
// all remaining entries, from which the needed room is computed. `free`: free bytes of the disk.
// Does nothing if there are few files, or if `free` is too small for the compaction.
Status DropDeleted(rocksdb::DB& db, const std::string& begin, const std::string& end,
                   uint64_t free);

}  // namespace tandem::pserver
