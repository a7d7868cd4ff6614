// Converts results of RocksDB.
#pragma once

#include <string>

#include "common/base/status.h"

namespace rocksdb {
class Status;
}  // namespace rocksdb

namespace tandem::pserver {

// Converts a status of RocksDB. `what`: the failed operation in the message, "cannot read the log
// of DIR".
Status FromRocksdb(const rocksdb::Status& status, const std::string& what);

}  // namespace tandem::pserver
