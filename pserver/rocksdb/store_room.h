// Computes the disk space that the RocksDB of the checkpoint store needs in addition to its input.
// RocksDB must never receive more data than fits on the disk: Debian's build may abort the process
// on a full disk (measured), and RocksDB writes nothing more after an error.
//
// The values of checkpoints and the entries of the log are files next to the database. The database
// has only records: RocksDB writes each of them to its log, and again when a memtable becomes a
// file. Files are not preallocated.
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
// Syncs RocksDB's log files in `dir`, because an earlier process may have left unsynced records.
// Returns their size in bytes.
StatusOr<uint64_t> SyncRecordFiles(const std::string& dir);

// Returns the bytes that must be free for a file of `bytes` bytes, and for what `db` writes to the
// disk with the records about the file.
uint64_t RoomFor(rocksdb::DB& db, uint64_t bytes);

}  // namespace tandem::pserver
