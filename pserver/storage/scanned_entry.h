// An entry of a log with the facts about it that are not in the entry.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/status.h"
#include "pserver/state/wal.h"

namespace tandem::pserver {

struct ScannedEntry {
  LogEntry entry;
  // Time of the write in microseconds of Unix time; 0: unknown. An entry that an earlier version
  // wrote has a time that is up to a second earlier.
  int64_t time_us = 0;
  // true: the state before this entry is a restored one, and not the result of the entries before.
  bool restored = false;
  uint64_t restored_from = 0;  // number of the restored global snapshot; 0: it was the checkpoint
};
// A restore in a log.
struct LogBreak {
  uint64_t number = 0;    // last entry before the restored state; 0: there is no restore
  uint64_t snapshot = 0;  // number of the restored global snapshot; 0: it was the checkpoint
};
using ScanSink = std::function<Status(ScannedEntry)>;

}  // namespace tandem::pserver
