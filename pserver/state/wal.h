// The write-ahead log (WAL) of a shard. Each change is logged, in order, before it is acknowledged.
// After a restart, a server therefore has every acknowledged update and the sequence number of its
// push.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/state/push.h"

namespace tandem::pserver {

struct MoveRecord;  // defined in bucket_move.h

// A logged change. The update and its mark (trainer, incarnation, sequence) are in one record. A
// crash therefore leaves both or neither in the log.
struct LogEntry {
  enum class Kind : uint8_t {
    kPush = 1,  // a push, in `head` and `values`
    // The trainer head.caller was restarted; gradients of its older incarnation are dropped.
    kAdopt = 2,
    kComplete = 3,  // the trainer head.caller sends no more pushes
    // The records kMove... have `move`, and concern row buckets and slices.
    kMoveBegun = 4,     // moves have begun; their ownership epochs are used up
    kMoveOffered = 5,   // buckets were received, but are not served yet
    kMoveReleased = 6,  // buckets were given away
    kMoveLearned = 7,   // received buckets are served from now on, or were dropped
    kOrder = 8,         // a push whose values its sender keeps; `head` has no slices
    kMoveRefused = 9,   // the server rejects buckets from now on, or accepts them again (`move`)
  };
  uint64_t number = 0;  // 1, 2, 3 ... without a gap as long as the data directory exists
  Kind kind = Kind::kPush;
  PushHead head;
  std::vector<Buffer> values;  // values of each slice in head.slices; immutable
  std::shared_ptr<const MoveRecord> move = nullptr;
  // kOrder: bytes of the values that the sender keeps; not in the record.
  uint64_t sender_bytes = 0;
};

// When the log syncs written entries to the disk. Entries that are written, but not synced, survive
// the death of the process, but not of the machine.
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
  // Whether a change with `bytes` bytes of values may be made. OK: the disk has room for it and for
  // all waiting entries. RESOURCE_EXHAUSTED: there is no room. UNAVAILABLE: the log has ended.
  virtual Status Ready(uint64_t bytes) = 0;
  // Queues an entry and returns immediately. The caller must append entries in the order of their
  // numbers.
  virtual void Append(LogEntry entry) = 0;
  // Calls `done` when all entries appended before are written. Calls it immediately, or on the
  // log's thread.
  virtual void WhenLogged(Written done) = 0;
};

}  // namespace tandem::pserver
