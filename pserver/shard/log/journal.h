// Assigns a number to each change of a shard and appends the change to the write-ahead log (WAL).
#pragma once

#include <cstdint>
#include <vector>

#include "pserver/state/bucket_move.h"
#include "pserver/state/wal.h"

namespace tandem::pserver {

// Assigns a number to each change of one shard and logs the change. Not thread-safe (the shard's
// lock guards it).
class Journal {
 public:
  // `log` must outlive this object; null: changes have no numbers and are not logged. `replayable`:
  // the log stores only the order of pushes, without their values.
  Journal(WriteAheadLog* log, bool replayable) : log_(log), replayable_(replayable) {}

  bool has_log() const { return log_ != nullptr; }
  bool stores_values() const { return log_ != nullptr && !replayable_; }
  // Returns the status of WriteAheadLog::Ready for a change with `bytes` bytes of values. Returns
  // OK if there is no log.
  Status Ready(uint64_t bytes) const;

  // Append a change to the log. During a replay of logged changes, both functions do nothing.
  void Note(LogRecord record);
  void NotePush(const PushHead& head, const PushTicket& ticket);

  // Number of the last logged or replayed change.
  uint64_t number() const { return number_; }
  // Number of the last change that is applied to the parameters. Later changes, such as gradients
  // of the step in progress, are in no snapshot, so their entries must stay in the log.
  uint64_t settled_number() const { return settled_number_; }
  // Records that all changes are applied to the parameters.
  void Settle() { settled_number_ = number_; }
  // Sets the number of the last change; the next change gets the following number. REQUIRES: number
  // >= number().
  void Resume(uint64_t number);

  // While this object exists, the shard replays change `number`, and the journal logs nothing.
  class Replay {
   public:
    // REQUIRES: no other Replay of this journal exists.
    Replay(Journal& journal, uint64_t number);
    ~Replay() { journal_.replaying_ = false; }
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

   private:
    Journal& journal_;
  };
  bool replaying() const { return replaying_; }

 private:
  bool notes() const { return log_ != nullptr && !replaying_; }

  WriteAheadLog* const log_;
  const bool replayable_;
  uint64_t number_ = 0, settled_number_ = 0;
  bool replaying_ = false;
};

}  // namespace tandem::pserver
