// A WriteAheadLog that writes all waiting entries in one write (group commit).
//
// If a write fails for lack of disk space, the log retries the write until it succeeds. After each
// failed write, the callers that wait receive the error. Any other error ends the log, because
// unsynced data may be lost. An ended log acknowledges no further change, and the process must end.
// The next process recovers from the directory.
#pragma once

#include <span>
#include <string>
#include <thread>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "pserver/state/wal.h"
#include "pserver/storage/storage.h"

namespace tandem::pserver {

// Returns the bytes of the values of an entry; 0 for all changes but a push.
uint64_t ValueBytes(const LogEntry& entry);

struct GroupLogOptions {
  WalSync sync = WalSync::kInterval;
  Duration sync_interval = std::chrono::milliseconds(100);
  uint64_t bytes_max = uint64_t{256} << 20;  // logged bytes after which `on_full` is called
  // Called when bytes_max bytes were logged since the last call. The count includes the values of
  // pushes that only the trainers keep (OrderRecord::sender_bytes). The owner should then write a
  // checkpoint, which shortens the log. Must not block.
  std::function<void()> on_full;
  // Called when NextTurn may have become earlier. Must not block.
  std::function<void()> on_work;
  // Called with the reason when the log has ended, at most once. Must not block.
  std::function<void(const Status&)> on_end;
  // Maximum bytes of values that wait to be written. Ready rejects a change that would exceed the
  // maximum. If no values wait, a change of any size is accepted.
  uint64_t waiting_bytes_max = uint64_t{4} << 30;
  // Called with the entries of each successful write, before their callbacks. Must not block.
  std::function<void(std::span<const LogEntry>)> on_written;
};

// A log without its own thread and clock: the owner calls Turn at NextTurn. Thread-safe.
class GroupCommitLog final : public WriteAheadLog {
 public:
  // All arguments except `options` must outlive the log.
  GroupCommitLog(GroupLogOptions options, const Clock& clock, Storage& storage, Metrics& metrics);
  ~GroupCommitLog() override;  // calls Close
  Status Ready(uint64_t bytes) override;
  void Append(LogEntry entry) override;
  void WhenLogged(Written done) override { Wait(std::move(done), /*replicated=*/false); }
  // Like WhenLogged, but also waits for standbys without AwaitStandbys.
  void WhenReplicated(Written done) { Wait(std::move(done), /*replicated=*/true); }

  // Writes all waiting entries in one write, then calls the callbacks of the entries. Only one
  // thread at a time may call Turn.
  void Turn();
  // Returns the earliest time at which Turn must be called; Time::max(): no work.
  Time NextTurn() const;
  // Records that the store has all entries up to `number`, which an earlier process wrote. The next
  // entry has a higher number. REQUIRES: no entry was appended.
  void Resume(uint64_t number);
  uint64_t written() const;  // number of the last written entry
  // Removes the entries that the store does not have, because a write failed for lack of disk
  // space. Waits for a Turn in progress, which may still write them. The callbacks of removed
  // entries receive UNAVAILABLE. The number of the next entry is above written(). No effect on a
  // log that has ended.
  void DropUnwritten();
  // From now on, the callbacks of an entry also wait until Replicated has its number. Also concerns
  // entries that were written before.
  void AwaitStandbys();
  // Records that standby servers have stored all entries up to `number`, and calls the callbacks
  // that waited for this. A lower number than before has no effect.
  void Replicated(uint64_t number);
  // Ends the log. Writes the waiting entries once, then passes an error to the callbacks that still
  // wait. REQUIRES: no Turn is in progress, and none follows.
  void Close();

 private:
  struct Waiting {
    uint64_t number;  // number of the entry for which the callback waits
    bool replicated;  // true: it waits for standbys
    Written done;
  };
  void Wait(Written done, bool replicated);
  Status Write();
  // Records `status`, the result of the write. Calls the callbacks whose entries are written; after
  // an error, calls all callbacks.
  void Release(const Status& status);
  // Returns the number of the last entry that is written and, if the callbacks wait for standby
  // servers, replicated.
  uint64_t Acknowledged(bool replicated) const TD_REQUIRES(mu_);
  // Removes and returns the callbacks whose entries are acknowledged; `all`: all callbacks.
  std::vector<Waiting> TakeReady(bool all) TD_REQUIRES(mu_);

  const GroupLogOptions options_;
  const Clock& clock_;
  Storage& storage_;
  Histogram& write_seconds_;
  Counter& bytes_total_;
  mutable Mutex mu_;
  bool closed_ TD_GUARDED_BY(mu_) = false;  // true: the log accepts and writes nothing more
  Status status_ TD_GUARDED_BY(mu_);        // result of the last write
  Time again_ TD_GUARDED_BY(mu_);           // time of the next Turn without new entries
  // Numbers of the last appended and the last written entry.
  uint64_t appended_ TD_GUARDED_BY(mu_) = 0;
  uint64_t written_ TD_GUARDED_BY(mu_) = 0;
  uint64_t replicated_ TD_GUARDED_BY(mu_) = 0;  // last entry that standby servers have stored
  bool awaits_standbys_ TD_GUARDED_BY(mu_) = false;
  std::vector<LogEntry> entries_ TD_GUARDED_BY(mu_);
  uint64_t waiting_bytes_ TD_GUARDED_BY(mu_) = 0;  // bytes of the values that are not written yet
  std::vector<Waiting> waiting_ TD_GUARDED_BY(mu_);
  bool turning_ TD_GUARDED_BY(mu_) = false;  // a Turn is in progress
  CondVar turned_;                           // notified at the end of each Turn
  // Only Turn uses these fields; DropUnwritten uses them between two Turns.
  std::vector<LogEntry> batch_;  // entries that are being written
  uint64_t bytes_ = 0;
  bool unsynced_ = false;
  Time synced_;
};

// A thread that writes the entries of a log: it calls GroupCommitLog::Turn at NextTurn and after
// Poke. REQUIRES: the log uses the real clock.
class LogFlushThread {
 public:
  explicit LogFlushThread(GroupCommitLog& log);
  ~LogFlushThread();  // joins the thread when the Turn in progress has ended
  void Poke();        // wakes the thread; for GroupLogOptions::on_work

 private:
  void Loop();

  GroupCommitLog& log_;  // not owned; must outlive this object
  Mutex mu_;
  CondVar cv_;
  bool work_ TD_GUARDED_BY(mu_) = false;
  bool stop_ TD_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tandem::pserver
