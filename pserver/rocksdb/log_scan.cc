#include "pserver/rocksdb/log_scan.h"

#include <rocksdb/db.h>

#include <memory>
#include <utility>

#include "common/base/require.h"
#include "pserver/rocksdb/log_marks.h"
#include "pserver/rocksdb/store_keys.h"
#include "pserver/wire/log_record.h"

namespace tandem::pserver {
namespace {

// The marks and breaks of a log, for entries by ascending numbers.
class EntryFacts {
 public:
  explicit EntryFacts(rocksdb::DB& db) : marks_(db.NewIterator({})), breaks_(db.NewIterator({})) {
    marks_->Seek(keys::kMarkBegin);
    breaks_->Seek(keys::kBreakBegin);
  }
  // Sets the facts of an entry.
  void Fill(ScannedEntry* entry) {
    const uint64_t number = entry->entry.number;
    uint64_t at = 0;
    while (marks_->Valid() &&
           keys::ParseNumbered(marks_->key().ToStringView(), keys::kMarkBegin, &at) &&
           at <= number) {
      LogMark mark;
      if (ParseLogMark(marks_->value().ToStringView(), &mark)) time_us_ = mark.time_us;
      marks_->Next();
    }
    while (breaks_->Valid() &&
           keys::ParseNumbered(breaks_->key().ToStringView(), keys::kBreakBegin, &at) &&
           at < number) {
      if (at + 1 == number) {
        entry->restored = true;
        (void)absl::SimpleAtoi(breaks_->value().ToString(), &entry->restored_from);
      }
      breaks_->Next();
    }
    entry->time_us = time_us_;
  }

 private:
  const std::unique_ptr<rocksdb::Iterator> marks_, breaks_;
  int64_t time_us_ = 0;
};

}  // namespace

Status ScanLogOf(rocksdb::DB& db, const std::string& dir, uint64_t first, const ScanSink& take) {
  TD_REQUIRE(take != nullptr);
  EntryFacts facts(db);
  const std::unique_ptr<rocksdb::Iterator> it(db.NewIterator({}));
  uint64_t previous = 0;
  for (it->Seek(keys::Log(first)); it->Valid(); it->Next()) {
    uint64_t number = 0;
    if (!keys::ParseNumbered(it->key().ToStringView(), keys::kLogBegin, &number)) break;
    StatusOr<LogEntry> entry = DecodeLogEntry(number, it->value().ToStringView());
    if (!entry.ok()) return Annotate(entry.status(), dir);
    ScannedEntry scanned{.entry = *std::move(entry)};
    facts.Fill(&scanned);
    // The numbers of a restored state may be higher.
    if (previous != 0 && number != previous + 1 && !scanned.restored) {
      return DataLoss(
          "%s: the update log lacks entry %d and continues with entry %d [TD2118]; hint: restore a "
          "copy of the directory",
          dir, previous + 1, number);
    }
    TD_RETURN_IF_ERROR(take(std::move(scanned)));
    previous = number;
  }
  if (it->status().ok()) return OkStatus();
  return Unavailable("cannot read the update log of %s: %s [TD2110]", dir, it->status().ToString());
}

}  // namespace tandem::pserver
