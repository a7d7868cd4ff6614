#include "pserver/rocksdb/log_marks.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/require.h"
#include "pserver/rocksdb/store_keys.h"

namespace tandem::pserver {
namespace {

constexpr int64_t kEveryUs = 1000 * 1000;
constexpr uint64_t kEveryBytes = uint64_t{4} << 20;

int64_t NowUs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

bool ParseLogMark(std::string_view text, LogMark* mark) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), ' ');
  return parts.size() == 2 && absl::SimpleAtoi(parts[0], &mark->time_us) &&
         absl::SimpleAtoi(parts[1], &mark->before);
}

void LogMarks::Open(rocksdb::DB* db) {
  TD_REQUIRE(db != nullptr && db_ == nullptr);
  db_ = db;
  const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator({}));
  it->SeekForPrev(keys::kMarkEnd);
  LogMark mark;
  if (!it->Valid() || !it->key().starts_with(keys::kMarkBegin)) return;
  if (!ParseLogMark(it->value().ToStringView(), &mark)) return;
  MutexLock lock(mu_);
  // The clock may have been set back, so the time of the old mark does not delay the next one.
  bytes_ = marked_ = mark.before;
}

void LogMarks::Note(uint64_t number, uint64_t bytes, rocksdb::WriteBatch* batch) {
  TD_REQUIRE(db_ != nullptr && number != 0);
  const int64_t now = NowUs();
  MutexLock lock(mu_);
  if (now - time_us_ >= kEveryUs || now < time_us_ || bytes_ - marked_ >= kEveryBytes) {
    (void)batch->Put(keys::Numbered(keys::kMarkBegin, number),
                     absl::StrFormat("%d %d", now, bytes_));
    time_us_ = now;
    marked_ = bytes_;
  }
  bytes_ += bytes;
}

uint64_t LogMarks::FirstKept(uint64_t needed, uint64_t bytes) const {
  TD_REQUIRE(db_ != nullptr);
  if (bytes == 0) return needed;
  uint64_t all = 0;
  {
    MutexLock lock(mu_);
    all = bytes_;
  }
  uint64_t first = needed;
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
  for (it->SeekForPrev(keys::Numbered(keys::kMarkBegin, needed)); it->Valid(); it->Prev()) {
    LogMark mark;
    if (!keys::ParseNumbered(it->key().ToStringView(), keys::kMarkBegin, &mark.number)) break;
    if (!ParseLogMark(it->value().ToStringView(), &mark)) break;
    if (mark.before > all || all - mark.before > bytes) break;
    first = std::min(first, mark.number);
  }
  return first;
}

void LogMarks::Remove(uint64_t first, rocksdb::WriteBatch* batch) const {
  const std::string mark = keys::Numbered(keys::kMarkBegin, first);
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
  it->SeekForPrev(mark);
  const bool moves = it->Valid() && it->key().starts_with(keys::kMarkBegin) && it->key() != mark;
  if (moves) (void)batch->Put(mark, it->value());
  for (const char* begin : {keys::kLogBegin, keys::kMarkBegin}) {
    (void)batch->DeleteRange(begin, keys::Numbered(begin, first));
  }
  // The newest break stays: snapshots from before it belong to an abandoned history.
  it->SeekForPrev(keys::kBreakEnd);
  if (!it->Valid() || !it->key().starts_with(keys::kBreakBegin)) return;
  (void)batch->DeleteRange(
      keys::kBreakBegin, std::min(keys::Numbered(keys::kBreakBegin, first), it->key().ToString()));
}

void LogMarks::RemoveAll(rocksdb::WriteBatch* batch) {
  (void)batch->DeleteRange(keys::kLogBegin, keys::kLogEnd);
  (void)batch->DeleteRange(keys::kMarkBegin, keys::kMarkEnd);
  (void)batch->DeleteRange(keys::kBreakBegin, keys::kBreakEnd);
}

}  // namespace tandem::pserver
