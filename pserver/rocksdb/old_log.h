// The log of stores that an earlier version wrote: its entries are records of RocksDB.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "pserver/log_files/log_files.h"

namespace rocksdb {
class DB;
class WriteBatch;
}  // namespace rocksdb

namespace tandem::pserver {

// Facts about the keys of the old log.
struct OldLog {
  uint64_t entries = 0;  // number of entries
  uint64_t bytes = 0;    // bytes of their values
  // The store has the record of MarkLogInFiles.
  bool marked = false;
};
// UNAVAILABLE, DATA_LOSS: RocksDB cannot read the keys. `dir`: directory of the store, for
// messages.
StatusOr<OldLog> FindOldLog(rocksdb::DB& db, const std::string& dir);

// Appends all entries of the old log, with their times, to `files`, durably, and adds the removal
// of the times to the batch. DATA_LOSS: RocksDB cannot read an entry.
Status CopyOldLog(rocksdb::DB& db, const std::string& dir, LogFiles& files,
                  rocksdb::WriteBatch* batch);
// Adds the removal of the old entries and of an earlier mark to the batch, and a record at entry
// `next`, at which an earlier version stops with the message that a newer version wrote the entry.
// `next`: number of the first entry after the checkpoint. Without the record, an earlier version
// would start without the entries in the files.
void MarkLogInFiles(uint64_t next, rocksdb::WriteBatch* batch);

}  // namespace tandem::pserver
