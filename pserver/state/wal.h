// The write-ahead log (WAL) of a shard. Each change is logged in order before it is acknowledged. A
// restarted server therefore has every acknowledged update and the sequence numbers of its push.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/state/push.h"

namespace tandem::pserver {

struct MoveRecord;  // see bucket_move.h

// One change. The update and its mark (trainer, incarnation, sequence) are one record, so neither
// exists without the other.
struct LogEntry {
  enum class Kind : uint8_t {
    kPush = 1,      // head and values
    kAdopt = 2,     // head.caller was restarted: the gradients of its older incarnation are dropped
    kComplete = 3,  // head.caller sends no more pushes
    // Records with `move`, about row buckets:
    kMoveBegun = 4,     // ownership epochs of moves, which are used once
    kMoveOffered = 5,   // received, and not served yet
    kMoveReleased = 6,  // given away
    kMoveLearned = 7,   // served from now on, or dropped
    kOrder = 8,         // a push whose values its sender keeps: only the head, without slices
    kMoveRefused = 9,   // `move`: buckets are rejected from now on, or accepted again
  };
  uint64_t number = 0;  // 1, 2, 3 ... over the life of the data directory
  Kind kind = Kind::kPush;
  PushHead head;
  std::vector<Buffer> values;  // in the order of head.slices; immutable
  std::shared_ptr<const MoveRecord> move = nullptr;
  uint64_t sender_bytes = 0;  // kOrder: bytes of the values; not written
};

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
