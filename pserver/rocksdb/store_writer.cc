#include "pserver/rocksdb/store_writer.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include "common/base/require.h"
#include "pserver/rocksdb/store_keys.h"

namespace tandem::pserver {

void StoreWriter::Open(rocksdb::DB* db) {
  MutexLock lock(mu_);
  TD_REQUIRE(db_ == nullptr && db != nullptr);
  db_ = db;
  memtable_bytes_ = db->GetOptions().write_buffer_size;
}

bool StoreWriter::NeedsRecord() const {
  using Properties = rocksdb::DB::Properties;
  uint64_t entries = 0, bytes = 0;
  (void)db_->GetIntProperty(Properties::kNumEntriesActiveMemTable, &entries);
  (void)db_->GetIntProperty(Properties::kCurSizeActiveMemTable, &bytes);
  return entries == 0 || bytes >= memtable_bytes_ / 4 * 3;
}

rocksdb::Status StoreWriter::Write(const rocksdb::WriteOptions& options,
                                   rocksdb::WriteBatch* batch) {
  MutexLock lock(mu_);
  TD_REQUIRE(db_ != nullptr);
  rocksdb::Status status;
  if (NeedsRecord()) {
    rocksdb::WriteOptions without_log;
    without_log.disableWAL = true;
    status = db_->Delete(without_log, keys::kNothing);
  }
  if (status.ok()) status = db_->Write(options, batch);
  had_no_room_ = status.IsNoSpace();
  return status;
}

std::optional<rocksdb::Status> StoreWriter::SyncLogFiles() {
  MutexLock lock(mu_);
  TD_REQUIRE(db_ != nullptr);
  if (had_no_room_) return std::nullopt;
  return db_->SyncWAL();
}

}  // namespace tandem::pserver
