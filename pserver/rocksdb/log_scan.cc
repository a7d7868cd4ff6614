#include "pserver/rocksdb/log_scan.h"

#include <utility>

#include "common/base/require.h"
#include "pserver/wire/log_record.h"

namespace tandem::pserver {

LogScan::LogScan(std::vector<LogBreak> breaks, std::string dir, const ScanSink& take)
    : breaks_(std::move(breaks)), dir_(std::move(dir)), take_(take) {
  TD_REQUIRE(take_ != nullptr);
}

Status LogScan::Add(const LogFrame& frame) {
  const uint64_t number = frame.head.number;
  StatusOr<LogEntry> entry = DecodeLogEntry(number, frame.payload);
  if (!entry.ok()) return Annotate(entry.status(), dir_);
  ScannedEntry scanned{.entry = *std::move(entry), .time_us = frame.head.time_us};
  for (; break_ < breaks_.size() && breaks_[break_].number < number; ++break_) {
    if (breaks_[break_].number + 1 != number) continue;
    scanned.restored = true;
    scanned.restored_from = breaks_[break_].snapshot;
  }
  // The numbers of a restored state may be higher.
  if (previous_ != 0 && number != previous_ + 1 && !scanned.restored) {
    return DataLoss(
        "%s: the update log lacks entry %d and continues with entry %d [TD2118]; hint: restore a "
        "copy of the directory",
        dir_, previous_ + 1, number);
  }
  previous_ = number;
  return take_(std::move(scanned));
}

}  // namespace tandem::pserver
