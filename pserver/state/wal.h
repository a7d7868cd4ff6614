// The write-ahead log (WAL) of a shard. Each change is logged, in order, before it is acknowledged.
// After a restart, a server therefore has every acknowledged update and the sequence number of its
// push.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/tables/push_header.h"
#include "common/tensor/device.h"
#include "pserver/state/bucket_move.h"
#include "pserver/state/push.h"

namespace tandem::pserver {

// ---- Changes ------------------------------------------------------------------------------------

// A push. The update and its mark (trainer, incarnation, sequence) are in one record. A crash
// therefore leaves both or neither in the log.
struct PushRecord {
  PushHead head;
  std::vector<Buffer> values;  // values of each slice in head.slices; immutable
};
// A push without its values, which the sender keeps.
struct OrderRecord {
  PushHeader header;
  // Bytes of the values that the sender keeps; not in the record.
  uint64_t sender_bytes = 0;
};
// The trainer was restarted at this step: the gradients of its older incarnation are dropped.
struct AdoptRecord {
  CallerId caller;
  uint64_t step = 0;
};
// The trainer sends no more pushes.
struct CompleteRecord {
  CallerId caller;
};
using LogRecord = std::variant<PushRecord, OrderRecord, AdoptRecord, CompleteRecord, MoveRecord>;

// A logged change.
struct LogEntry {
  uint64_t number = 0;  // 1, 2, 3 ... without a gap as long as the data directory exists
  LogRecord record;
};

// ---- The log ------------------------------------------------------------------------------------

// The time at which the log syncs written entries to the disk. Entries that are written, but not
// synced, survive the death of the process, but not of the machine.
enum class WalSync : uint8_t {
  kNone,      // the operating system decides
  kInterval,  // within the sync interval of the log
  kAlways     // before the change is acknowledged
};
// Parses "none", "interval" or "always".
StatusOr<WalSync> ParseWalSync(const std::string& text);

// The interface of the log. Thread-safe.
class WriteAheadLog {
 public:
  // Receives OK if the entries are written, or the reason why they are not written.
  // RESOURCE_EXHAUSTED: they may still be written later.
  using Written = std::function<void(const Status&)>;

  virtual ~WriteAheadLog() = default;
  // Checks whether a change with `bytes` bytes of values may be made. OK: the disk has room for it
  // and for all waiting entries. RESOURCE_EXHAUSTED: there is no room. UNAVAILABLE: the log has
  // ended.
  virtual Status Ready(uint64_t bytes) = 0;
  // Queues an entry and returns immediately. The caller must append entries in the order of their
  // numbers.
  virtual void Append(LogEntry entry) = 0;
  // Calls `done` when all entries appended before are written. Calls it immediately, or on the
  // log's thread.
  virtual void WhenLogged(Written done) = 0;
};

}  // namespace tandem::pserver
