// Reads the log of a store, also entries that a checkpoint contains.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "pserver/storage/scanned_entry.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace tandem::pserver {

// Calls `take` for the entries with the number `first` or a later one, by ascending numbers, and
// returns its first error. The log may begin later than `first`. `dir`: directory of the store, for
// messages. DATA_LOSS: an entry is missing or damaged.
Status ScanLogOf(rocksdb::DB& db, const std::string& dir, uint64_t first, const ScanSink& take);

}  // namespace tandem::pserver
