#include "pserver/rocksdb/old_log.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <memory>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/require.h"
#include "pserver/rocksdb/rocksdb_status.h"
#include "pserver/rocksdb/store_keys.h"

namespace tandem::pserver {
namespace {

// An entry of a kind that no version knows, without content: its CRC32C is 0.
constexpr std::string_view kInFiles("\xff\0\0\0\0", kPayloadHeadBytes);

// The times of the entries, for ascending numbers. A mark is "TIME BYTES", with the microseconds of
// Unix time before the entry with its number was written.
class OldTimes {
 public:
  explicit OldTimes(rocksdb::DB& db) : marks_(db.NewIterator({})) {
    marks_->Seek(keys::kMarkBegin);
  }
  int64_t Of(uint64_t number) {
    uint64_t at = 0;
    while (marks_->Valid() &&
           keys::ParseNumbered(marks_->key().ToStringView(), keys::kMarkBegin, &at) &&
           at <= number) {
      const std::vector<std::string> parts = absl::StrSplit(marks_->value().ToString(), ' ');
      (void)absl::SimpleAtoi(parts[0], &time_us_);
      marks_->Next();
    }
    return time_us_;
  }

 private:
  const std::unique_ptr<rocksdb::Iterator> marks_;
  int64_t time_us_ = 0;
};

}  // namespace

StatusOr<OldLog> FindOldLog(rocksdb::DB& db, const std::string& dir) {
  OldLog found;
  const std::unique_ptr<rocksdb::Iterator> it(db.NewIterator({}));
  for (it->Seek(keys::kLogBegin); it->Valid() && it->key().starts_with(keys::kLogBegin);
       it->Next()) {
    const bool mark = it->value().ToStringView() == kInFiles;
    found.marked = found.marked || mark;
    if (mark) continue;
    ++found.entries;
    found.bytes += it->value().size();
  }
  TD_RETURN_IF_ERROR(FromRocksdb(it->status(), "cannot read the write-ahead log of " + dir));
  return found;
}

Status CopyOldLog(rocksdb::DB& db, const std::string& dir, LogFiles& files,
                  rocksdb::WriteBatch* batch) {
  TD_REQUIRE(batch != nullptr);
  OldTimes times(db);
  const std::unique_ptr<rocksdb::Iterator> it(db.NewIterator({}));
  for (it->Seek(keys::kLogBegin); it->Valid() && it->key().starts_with(keys::kLogBegin);
       it->Next()) {
    LogPayload entry;
    const bool numbered =
        keys::ParseNumbered(it->key().ToStringView(), keys::kLogBegin, &entry.number);
    if (!numbered || it->value().ToStringView() == kInFiles) continue;
    entry.pieces = {it->value().ToStringView()};
    TD_RETURN_IF_ERROR(files.Append({&entry, 1}, times.Of(entry.number), false).status());
  }
  TD_RETURN_IF_ERROR(FromRocksdb(it->status(), "cannot read the write-ahead log of " + dir));
  (void)batch->DeleteRange(keys::kMarkBegin, keys::kMarkEnd);
  return files.Sync().status();
}

void MarkLogInFiles(uint64_t next, rocksdb::WriteBatch* batch) {
  TD_REQUIRE(batch != nullptr);
  (void)batch->DeleteRange(keys::kLogBegin, keys::kLogEnd);
  (void)batch->Put(keys::Log(next), rocksdb::Slice(kInFiles.data(), kInFiles.size()));
}

}  // namespace tandem::pserver
