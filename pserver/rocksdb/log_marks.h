// The times at which entries of a log were written, and which old entries a store keeps.
//
// A mark is a record beside an entry: "TIME BYTES", with the microseconds of Unix time before the
// entry was written, and the bytes of all entries before it. There is at most one mark a second,
// and at least one for 4 MiB of entries.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace rocksdb {
class DB;
class WriteBatch;
}  // namespace rocksdb

namespace tandem::pserver {

// A time in a log.
struct LogMark {
  uint64_t number = 0;  // entries with this and later numbers were written at `time_us` or later
  int64_t time_us = 0;  // microseconds of Unix time
  uint64_t before = 0;  // bytes of all entries before
};
// Returns false if the text of a mark is damaged. Sets all fields but the number.
bool ParseLogMark(std::string_view text, LogMark* mark);

// The marks of one store. Thread-safe.
class LogMarks {
 public:
  // Reads the newest mark. `db` must outlive this object.
  void Open(rocksdb::DB* db);
  // Adds a mark to the batch if one is due. `number`: the first entry of the batch. `bytes`: bytes
  // of its entries.
  void Note(uint64_t number, uint64_t bytes, rocksdb::WriteBatch* batch);
  // Returns the number of the first entry to keep if the entries below `needed` are needed no more,
  // and at most about `bytes` bytes of them are kept. Returns at most `needed`.
  uint64_t FirstKept(uint64_t needed, uint64_t bytes) const;
  // Adds the removal of all entries below `first`, with their marks, to the batch. Entry `first`
  // keeps its time.
  void Remove(uint64_t first, rocksdb::WriteBatch* batch) const;
  // Adds the removal of all entries and marks to the batch.
  static void RemoveAll(rocksdb::WriteBatch* batch);

 private:
  rocksdb::DB* db_ = nullptr;
  mutable Mutex mu_;
  int64_t time_us_ TD_GUARDED_BY(mu_) = 0;  // time of the newest mark
  uint64_t marked_ TD_GUARDED_BY(mu_) = 0;  // bytes at the newest mark
  uint64_t bytes_ TD_GUARDED_BY(mu_) = 0;   // bytes of all entries
};

}  // namespace tandem::pserver
