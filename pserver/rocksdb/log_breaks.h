// The records of restores in a log. A restored state follows entry LogBreak::number, so the later
// entries are no changes of the state before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/storage/scanned_entry.h"

namespace rocksdb {
class DB;
class WriteBatch;
}  // namespace rocksdb

namespace tandem::pserver {

// Adds the record of a restore to the batch.
void AddLogBreak(const LogBreak& at, rocksdb::WriteBatch* batch);
// Adds the removal of the restores below entry `first` to the batch. The newest one stays, because
// snapshots from before it belong to an abandoned history.
void RemoveLogBreaks(rocksdb::DB& db, uint64_t first, rocksdb::WriteBatch* batch);
// Adds the removal of all restores to the batch.
void RemoveAllLogBreaks(rocksdb::WriteBatch* batch);
// Returns the restores by ascending numbers. `dir`: directory of the store, for messages.
// DATA_LOSS: a record is damaged.
StatusOr<std::vector<LogBreak>> LogBreaks(rocksdb::DB& db, const std::string& dir);

}  // namespace tandem::pserver
