// The write-ahead log (WAL) of a shard. Each change is logged in order before it is acknowledged. A
// restarted server therefore has every acknowledged update and the sequence numbers of its push.
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

// A push. The update and its mark (trainer, incarnation, sequence) are one record, so neither
// exists without the other.
struct PushRecord {
  PushHead head;
  std::vector<Buffer> values;  // in the order of head.slices; immutable
};
// A push whose values its sender keeps.
struct OrderRecord {
  PushHeader header;
  uint64_t sender_bytes = 0;  // bytes of the values; not written
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

struct LogEntry {
  uint64_t number = 0;  // 1, 2, 3 ... over the life of the data directory
  LogRecord record;
};

// ---- The log ------------------------------------------------------------------------------------

// When written entries are synced to the disk. Written entries always survive the death of the
// process.
enum class WalSync : uint8_t {
  kNone,      // decided by the operating system
  kInterval,  // within the sync interval
  kAlways     // before the acknowledgement
};
// "none", "interval", "always".
StatusOr<WalSync> ParseWalSync(const std::string& text);

// Thread-safe.
class WriteAheadLog {
 public:
  // The status is OK, or the reason why earlier entries are not written. RESOURCE_EXHAUSTED: they
  // may still be written later.
  using Written = std::function<void(const Status&)>;

  virtual ~WriteAheadLog() = default;
  // Returns OK if a change with `bytes` of values may be made: the disk has room for it and for all
  // waiting entries. RESOURCE_EXHAUSTED: no room. UNAVAILABLE: the log has ended.
  virtual Status Ready(uint64_t bytes) = 0;
  // Queues an entry; entries must come in the order of their numbers. Returns immediately.
  virtual void Append(LogEntry entry) = 0;
  // Calls `done` when all entries appended before are written: immediately, or on the log's thread.
  virtual void WhenLogged(Written done) = 0;
};

}  // namespace tandem::pserver
