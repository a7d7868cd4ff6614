#include "pserver/rocksdb/log_bounds.h"

#include <rocksdb/db.h>

#include "pserver/rocksdb/rocksdb_status.h"
#include "pserver/rocksdb/store_keys.h"

namespace tandem::pserver {
namespace {

StatusOr<uint64_t> ReadNumber(rocksdb::DB& db, const std::string& dir, const char* key) {
  std::string text;
  const rocksdb::Status got = db.Get({}, key, &text);
  if (got.IsNotFound()) return uint64_t{0};
  TD_RETURN_IF_ERROR(FromRocksdb(got, "cannot read " + dir));
  uint64_t number = 0;
  if (absl::SimpleAtoi(text, &number)) return number;
  return DataLoss(
      "%s: the record %s is damaged [TD2118]; hint: restore a copy of the directory, or move the "
      "directory away to start with an empty state",
      dir, key);
}

}  // namespace

StatusOr<LogBounds> ReadLogBounds(rocksdb::DB& db, const std::string& dir) {
  LogBounds bounds;
  TD_ASSIGN_OR_RETURN(bounds.generation, ReadNumber(db, dir, keys::kLogGeneration));
  TD_ASSIGN_OR_RETURN(bounds.first, ReadNumber(db, dir, keys::kLogFirst));
  return bounds;
}

}  // namespace tandem::pserver
