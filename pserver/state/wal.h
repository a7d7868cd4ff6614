// What changes a shard, noted in its order before anybody is told of the change, so that a server
// that is killed comes back with every update that it acknowledged, and with the sequence numbers
// behind them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/state/shard_types.h"

namespace tandem {

struct MoveRecord;  // bucket_move.h

// One change. The update and the mark that it was taken (trainer, incarnation, sequence) are the
// same record: there is never one without the other.
struct LogEntry {
  enum class Kind : uint8_t {
    kPush = 1,      // head and values
    kAdopt = 2,     // head.caller was started again: what the older incarnation gave is forgotten
    kComplete = 3,  // head.caller pushes no more
    // Of `move`. Buckets of rows:
    kMoveBegun = 4,     // numbers of moves, which are used once
    kMoveOffered = 5,   // came, and are not served yet
    kMoveReleased = 6,  // were given away
    kMoveLearned = 7,   // are served from now on, or kept no more
    kOrder = 8,         // a push whose values its sender keeps: head alone, without slices
    kMoveRefused = 9,   // of `move`: buckets are taken no more, or again
  };
  uint64_t number = 0;  // 1, 2, 3 ... over the life of the data folder
  Kind kind = Kind::kPush;
  PushHead head;
  std::vector<Buffer> values;  // by head.slices; never change
  std::shared_ptr<const MoveRecord> move = nullptr;
  uint64_t sender_bytes = 0;  // kOrder: of the values; not written
};

// When what is written is also on the disk. In every case it survives the death of the process.
enum class WalSync : uint8_t {
  kNone,      // when the system sees fit
  kInterval,  // at most so long later
  kAlways     // before it is acknowledged
};
// "none", "interval", "always".
StatusOr<WalSync> ParseWalSync(const std::string& text);

// Thread-safe.
class WriteAheadLog {
 public:
  // OK, or why what was noted before is not written. RESOURCE_EXHAUSTED: it still may be.
  using Written = std::function<void(const Status&)>;

  virtual ~WriteAheadLog() = default;
  // OK when a change with `bytes` of values may be made: there is room for it on the disk, and for
  // all that waits. Else the reason: RESOURCE_EXHAUSTED for lack of room, UNAVAILABLE when the log
  // has ended.
  virtual Status Ready(uint64_t bytes) = 0;
  // Returns at once. In the order of the numbers.
  virtual void Append(LogEntry entry) = 0;
  // Calls `done` when everything appended before is written: at once, or on the log's own thread.
  virtual void WhenLogged(Written done) = 0;
};

}  // namespace tandem
