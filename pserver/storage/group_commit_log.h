// An WriteAheadLog that writes what came together in one go (group commit).
//
// A write that fails for lack of room is made again until it succeeds, and those who wait for it
// are told the reason meanwhile. Any other error ends the log: RocksDB writes nothing more after
// one, and what was not synced has to be read again. Nothing is acknowledged from then on, and the
// process is to end; its successor reads what the folder holds.
#pragma once

#include <string>
#include <thread>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "pserver/state/wal.h"
#include "pserver/storage/storage.h"

namespace tandem {

struct GroupLogOptions {
  WalSync sync = WalSync::kInterval;
  Duration sync_interval = std::chrono::milliseconds(100);
  uint64_t bytes_max = uint64_t{256} << 20;  // then `on_full`
  // So much was written, or kept by senders, since the last call: time for a checkpoint, which
  // shortens the log. Must not block.
  std::function<void()> on_full;
  // NextTurn may be earlier than it was. Must not block.
  std::function<void()> on_work;
  // The log has ended, for this reason. Called once at most. Must not block.
  std::function<void(const Status&)> on_end;
  // Values that wait to be written; then Ready refuses. One change alone may have more.
  uint64_t waiting_bytes_max = uint64_t{4} << 30;
};

// Owns no thread and no clock: whoever drives it gives it a turn when NextTurn has come.
class GroupCommitLog final : public WriteAheadLog {
 public:
  // All but `options` must outlive the log.
  GroupCommitLog(GroupLogOptions options, const Clock& clock, Storage& storage, Metrics& metrics);
  ~GroupCommitLog() override;  // Close
  Status Ready(uint64_t bytes) override;
  void Append(LogEntry entry) override;
  void WhenLogged(Written done) override;

  // Writes what waits in one go, and calls those who waited for it. One call at a time.
  void Turn();
  // When Turn has something to do at the earliest; Time::max(): nothing.
  Time NextTurn() const;
  // Writes what waits, once; then those who still wait are told why not. REQUIRES: no Turn is under
  // way nor comes.
  void Close();

 private:
  struct Waiting {
    uint64_t number;  // when this entry is written
    Written done;
  };
  Status Write();
  // Tells those who waited how the write ended.
  void Release(const Status& status);

  const GroupLogOptions options_;
  const Clock& clock_;
  Storage& storage_;
  Histogram& write_seconds_;
  Counter& bytes_total_;
  mutable Mutex mu_;
  bool closed_ TD_GUARDED_BY(mu_) = false;    // nothing is taken or written any more
  Status status_ TD_GUARDED_BY(mu_);          // of the last write
  Time again_ TD_GUARDED_BY(mu_);             // when there is something to do without new entries
  uint64_t appended_ TD_GUARDED_BY(mu_) = 0;  // numbers
  uint64_t written_ TD_GUARDED_BY(mu_) = 0;
  std::vector<LogEntry> entries_ TD_GUARDED_BY(mu_);
  uint64_t waiting_bytes_ TD_GUARDED_BY(mu_) = 0;  // of values that are not written
  std::vector<Waiting> waiting_ TD_GUARDED_BY(mu_);
  // The turn's own:
  std::vector<LogEntry> batch_;  // being written
  uint64_t bytes_ = 0;
  bool unsynced_ = false;
  Time synced_;
};

// The thread that gives a log its turns; REQUIRES that the log's clock is the real one.
class LogFlushThread {
 public:
  explicit LogFlushThread(GroupCommitLog& log);
  ~LogFlushThread();  // joins, behind the turn under way
  void Poke();        // GroupLogOptions::on_work

 private:
  void Loop();

  GroupCommitLog& log_;  // not owned; must outlive this
  Mutex mu_;
  CondVar cv_;
  bool work_ TD_GUARDED_BY(mu_) = false;
  bool stop_ TD_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tandem
