// Which files and entries belong to the log of a store.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace tandem::pserver {

struct LogBounds {
  uint64_t generation = 0;  // number of the log, for LogFiles::Open
  uint64_t first = 0;       // the files may have older entries, which do not belong to the log
  friend bool operator==(const LogBounds&, const LogBounds&) = default;
};
// DATA_LOSS: a record is damaged.
StatusOr<LogBounds> ReadLogBounds(rocksdb::DB& db, const std::string& dir);

}  // namespace tandem::pserver
