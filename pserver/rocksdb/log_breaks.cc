#include "pserver/rocksdb/log_breaks.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <memory>

#include "common/base/require.h"
#include "pserver/rocksdb/rocksdb_status.h"
#include "pserver/rocksdb/store_keys.h"

namespace tandem::pserver {

void AddLogBreak(const LogBreak& at, rocksdb::WriteBatch* batch) {
  TD_REQUIRE(batch != nullptr);
  (void)batch->Put(keys::Numbered(keys::kBreakBegin, at.number), std::to_string(at.snapshot));
}

void RemoveLogBreaks(rocksdb::DB& db, uint64_t first, rocksdb::WriteBatch* batch) {
  TD_REQUIRE(batch != nullptr);
  const std::unique_ptr<rocksdb::Iterator> it(db.NewIterator({}));
  it->SeekForPrev(keys::kBreakEnd);
  if (!it->Valid() || !it->key().starts_with(keys::kBreakBegin)) return;
  (void)batch->DeleteRange(
      keys::kBreakBegin, std::min(keys::Numbered(keys::kBreakBegin, first), it->key().ToString()));
}

void RemoveAllLogBreaks(rocksdb::WriteBatch* batch) {
  TD_REQUIRE(batch != nullptr);
  (void)batch->DeleteRange(keys::kBreakBegin, keys::kBreakEnd);
}

StatusOr<std::vector<LogBreak>> LogBreaks(rocksdb::DB& db, const std::string& dir) {
  std::vector<LogBreak> breaks;
  const std::unique_ptr<rocksdb::Iterator> it(db.NewIterator({}));
  LogBreak at;
  for (it->Seek(keys::kBreakBegin);
       it->Valid() && keys::ParseNumbered(it->key().ToStringView(), keys::kBreakBegin, &at.number);
       it->Next()) {
    if (!absl::SimpleAtoi(it->value().ToString(), &at.snapshot)) {
      return DataLoss("%s: the record of a restore after log entry %d is damaged [TD4010]", dir,
                      at.number);
    }
    breaks.push_back(at);
  }
  TD_RETURN_IF_ERROR(FromRocksdb(it->status(), "cannot read the restores of " + dir));
  return breaks;
}

}  // namespace tandem::pserver
