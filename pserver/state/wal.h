// The write-ahead log (WAL) of a shard. The shard logs each change, in order, before it
// acknowledges the change. A restarted server therefore has every acknowledged update, and the
// sequence number of the push that made the update.
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

// A push with its values. The record contains the push and its mark (trainer, incarnation,
// sequence), so a crash leaves both or neither in the log.
struct PushRecord {
  PushHead head;
  std::vector<Buffer> values;  // values by slice, in the order of head.slices; immutable
};
// A push without its values. The sender keeps the values.
struct OrderRecord {
  PushHeader header;
  // Bytes of the values that the sender keeps. The log does not store this number.
  uint64_t sender_bytes = 0;
};
// The trainer was restarted at this step. The server dropped the gradients of the older
// incarnation.
struct AdoptRecord {
  CallerId caller;
  uint64_t step = 0;
};
// The trainer sends no more pushes. `numbers`: see PushHeader.
struct CompleteRecord {
  CallerId caller;
  SentNumbers numbers = {};
};
// A global snapshot has the state after all entries before this one. Standbys, which have the same
// state at this entry, then take the snapshot too.
struct SnapshotRecord {
  uint64_t number = 0;
  int64_t time_us = 0;  // as in SnapshotName
  // Number of the newest snapshot that all servers have and that is not abandoned; 0: none.
  uint64_t complete = 0;
  std::vector<uint64_t> whole = {};  // numbers of all snapshots that all servers have
};
using LogRecord =
    std::variant<PushRecord, OrderRecord, AdoptRecord, CompleteRecord, MoveRecord, SnapshotRecord>;

// A logged change.
struct LogEntry {
  uint64_t number = 0;  // 1, 2, 3 ... without a gap as long as the data directory exists
  LogRecord record;
};

// ---- The log ------------------------------------------------------------------------------------

// When the log syncs written entries to the disk. Entries that are written, but not synced, survive
// the death of the process, but not of the machine.
enum class WalSync : uint8_t {
  kNone,      // the operating system decides
  kInterval,  // within the sync interval of the log
  kAlways     // before the change is acknowledged
};
// Parses "none", "interval" or "always".
StatusOr<WalSync> ParseWalSync(const std::string& text);

// When a server with standbys acknowledges a change.
enum class Replication : uint8_t {
  kQuorum,  // when a majority of the server and its standbys has logged it
  // When the server has logged it. If the server is lost with its disk, the newest changes are lost
  // with it. The next primary counts the lost pushes (Shard::Complete, TrainerPushState).
  kAsync
};
// Parses "quorum" or "async".
StatusOr<Replication> ParseReplication(const std::string& text);

// The interface of the log. Thread-safe.
class WriteAheadLog {
 public:
  // Receives OK if the entries are written, or the error of the write. RESOURCE_EXHAUSTED: the log
  // may still write the entries later.
  using Written = std::function<void(const Status&)>;

  virtual ~WriteAheadLog() = default;
  // Checks whether a change with `bytes` bytes of values may be made. OK: the disk has room for the
  // change and for all waiting entries. RESOURCE_EXHAUSTED: there is no room. UNAVAILABLE: the log
  // has ended.
  virtual Status Ready(uint64_t bytes) = 0;
  // Queues an entry and returns immediately. The caller must append entries in the order of their
  // numbers.
  virtual void Append(LogEntry entry) = 0;
  // Calls `done` when all entries that were appended before are written: immediately, or on the
  // log's thread.
  virtual void WhenLogged(Written done) = 0;
};

}  // namespace tandem::pserver
