// The terms of a server's log: stores each new term, then begins it at the log source.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "common/base/status.h"
#include "pserver/replication/log_source.h"
#include "pserver/storage/group_commit_log.h"
#include "pserver/storage/storage.h"

namespace tandem::pserver {

// Not thread-safe; the owner calls it at the start, at a promotion, in a restore and after it, one
// at a time.
class TermKeeper {
 public:
  struct Options {
    int standbys = 0;                  // number of standbys of the server
    std::function<uint64_t()> random;  // returns a random number other than 0
    Replication replication = Replication::kQuorum;
  };
  // The log of the state that a term begins with, and whether the state has its initial values.
  struct Log {
    GroupCommitLog& log;
    bool initialised = false;
  };

  // `storage` must have files(). `storage` and `source` must outlive this object.
  TermKeeper(Options options, Storage& storage, LogSource& source);

  // Begins to send the log to standbys and replicas as the primary of a new term, which is stored
  // first. From now on, acknowledgements wait for standbys with kQuorum. A term without a history
  // begins a new one. REQUIRES: a new history has no predecessor.
  Status Begin(LogTerm term, std::optional<LogSource::Predecessor> predecessor, const Log& log);
  // Does the same after a start as a primary. The term follows the stored term.
  Status Resume(const Log& log);

  // Called before a restore. Stores the next term before the state changes. A crash then leaves a
  // term that no standby has, whatever the state is.
  Status OnRestoreBegin();
  // Called after a restore, and again when a checkpoint stores the new state later. `replaced`:
  // whether the state was replaced. `stored`: whether the store has the new state. After an error,
  // the source stays paused until a further call succeeds.
  Status OnRestoreEnd(bool replaced, bool stored, const Log& log);
  void OnEmptyShard() { restore_unfinished_ = false; }  // the server has no state any more

 private:
  const Options options_;
  Storage& storage_;
  LogSource& source_;
  // true: a restore has replaced the state, but its term has not begun. Standbys must not receive
  // entries of the new state as entries of the old term.
  bool restore_unfinished_ = false;
};

}  // namespace tandem::pserver
