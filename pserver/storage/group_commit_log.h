// A WriteAheadLog that writes all waiting entries together (group commit).
//
// A write that fails for lack of room is retried until it succeeds; meanwhile waiting callers
// receive the error. Any other error ends the log, because RocksDB writes nothing after an error
// and unsynced data must be read again. From then on nothing is acknowledged and the process must
// end. Its successor reads the contents of the directory.
#pragma once

#include <string>
#include <thread>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "pserver/state/wal.h"
#include "pserver/storage/storage.h"

namespace tandem::pserver {

struct GroupLogOptions {
  WalSync sync = WalSync::kInterval;
  Duration sync_interval = std::chrono::milliseconds(100);
  uint64_t bytes_max = uint64_t{256} << 20;  // limit for `on_full`
  // Called when bytes_max were written, or kept by senders, since the last call. A checkpoint then
  // shortens the log. Must not block.
  std::function<void()> on_full;
  // Called when NextTurn may be earlier than before. Must not block.
  std::function<void()> on_work;
  // Called with the reason when the log has ended, at most once. Must not block.
  std::function<void(const Status&)> on_end;
  // Limit of the values that wait to be written; above it, Ready rejects changes. A single change
  // may be larger.
  uint64_t waiting_bytes_max = uint64_t{4} << 30;
};

// Owns no thread and no clock: the owner calls Turn at NextTurn. Thread-safe.
class GroupCommitLog final : public WriteAheadLog {
 public:
  // All arguments except `options` must outlive the log.
  GroupCommitLog(GroupLogOptions options, const Clock& clock, Storage& storage, Metrics& metrics);
  ~GroupCommitLog() override;  // calls Close
  Status Ready(uint64_t bytes) override;
  void Append(LogEntry entry) override;
  void WhenLogged(Written done) override;

  // Writes all waiting entries together and calls the waiting callbacks. Only one call at a time.
  void Turn();
  // Earliest time at which Turn has work; Time::max(): none.
  Time NextTurn() const;
  // Writes all waiting entries once, then passes an error to the callbacks that still wait.
  // REQUIRES: no Turn is in progress or follows.
  void Close();

 private:
  struct Waiting {
    uint64_t number;  // the callback runs when this entry is written
    Written done;
  };
  Status Write();
  // Passes the status of the write to waiting callbacks.
  void Release(const Status& status);

  const GroupLogOptions options_;
  const Clock& clock_;
  Storage& storage_;
  Histogram& write_seconds_;
  Counter& bytes_total_;
  mutable Mutex mu_;
  bool closed_ TD_GUARDED_BY(mu_) = false;    // nothing is accepted or written any more
  Status status_ TD_GUARDED_BY(mu_);          // result of the last write
  Time again_ TD_GUARDED_BY(mu_);             // next time with work if no new entries come
  uint64_t appended_ TD_GUARDED_BY(mu_) = 0;  // entry numbers
  uint64_t written_ TD_GUARDED_BY(mu_) = 0;
  std::vector<LogEntry> entries_ TD_GUARDED_BY(mu_);
  uint64_t waiting_bytes_ TD_GUARDED_BY(mu_) = 0;  // size of the values not written yet
  std::vector<Waiting> waiting_ TD_GUARDED_BY(mu_);
  // Used only in Turn:
  std::vector<LogEntry> batch_;  // being written
  uint64_t bytes_ = 0;
  bool unsynced_ = false;
  Time synced_;
};

// The thread that calls Turn of a log. REQUIRES: the log uses the real clock.
class LogFlushThread {
 public:
  explicit LogFlushThread(GroupCommitLog& log);
  ~LogFlushThread();  // joins the thread, after the Turn in progress
  void Poke();        // for GroupLogOptions::on_work

 private:
  void Loop();

  GroupCommitLog& log_;  // not owned; must outlive this
  Mutex mu_;
  CondVar cv_;
  bool work_ TD_GUARDED_BY(mu_) = false;
  bool stop_ TD_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tandem::pserver
