#include "pserver/storage/group_commit_log.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/threads/runner.h"

namespace tandem::pserver {
namespace {

// Maximum time until a write that failed for lack of disk space is retried.
constexpr Duration kAgain = std::chrono::milliseconds(100);

}  // namespace

uint64_t ValueBytes(const LogEntry& entry) {
  uint64_t bytes = 0;
  const auto* const push = std::get_if<PushRecord>(&entry.record);
  if (push == nullptr) return 0;
  for (const PushHead::Slice& s : push->head.slices) bytes += s.desc.bytes();
  return bytes;
}

GroupCommitLog::GroupCommitLog(GroupLogOptions options, const Clock& clock, Storage& storage,
                               Metrics& metrics)
    : options_(std::move(options)),
      clock_(clock),
      storage_(storage),
      write_seconds_(metrics.GetHistogram(
          {"tandem_pserver_wal_write_seconds", "tandem_pserver_log_write_seconds"},
          "Time to write a group of changes to the write-ahead log, and to sync it if that was due",
          {1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10})),
      bytes_total_(
          metrics.GetCounter({"tandem_pserver_wal_bytes_total", "tandem_pserver_log_bytes_total"},
                             "Bytes written to the write-ahead log")),
      again_(Time::max()),
      synced_(clock.Now()) {}

GroupCommitLog::~GroupCommitLog() { Close(); }

Status GroupCommitLog::Ready(uint64_t bytes) {
  uint64_t all = 0;
  {
    MutexLock lock(mu_);
    TD_RETURN_IF_ERROR(status_);
    all = waiting_bytes_ + bytes;
    if (waiting_bytes_ != 0 && all > options_.waiting_bytes_max) {
      return ResourceExhausted(
          "the write-ahead log is too slow: %d bytes of pushes are waiting, and %d more bytes "
          "arrived, but at most %d bytes may wait [TD4016]; hint: use a faster disk",
          waiting_bytes_, bytes, options_.waiting_bytes_max);
    }
  }
  return storage_.CheckRoom(all);
}

void GroupCommitLog::Append(LogEntry entry) {
  {
    MutexLock lock(mu_);
    TD_REQUIRE(closed_ || entry.number > appended_);
    appended_ = entry.number;
    if (closed_) return;
    waiting_bytes_ += ValueBytes(entry);
    entries_.push_back(std::move(entry));
  }
  if (options_.on_work) options_.on_work();
}

void GroupCommitLog::Wait(Written done, bool replicated) {
  Status now;
  {
    MutexLock lock(mu_);
    const bool waits = appended_ > Acknowledged(replicated);
    if (waits && !closed_) {
      waiting_.push_back({appended_, replicated, std::move(done)});
      return;
    }
    if (waits) now = status_;
  }
  done(now);
}

Time GroupCommitLog::NextTurn() const {
  MutexLock lock(mu_);
  // After a failed write, the next write waits for again_, even if new entries arrive before.
  return status_.ok() && !entries_.empty() ? Time::min() : again_;
}

Status GroupCommitLog::Write() {
  Status appended;
  if (!batch_.empty()) {
    const auto bytes = storage_.AppendLog(batch_, options_.sync == WalSync::kAlways);
    appended = bytes.status();
    if (bytes.ok()) {
      bytes_ += *bytes;
      for (const LogEntry& entry : batch_) {
        const auto* const order = std::get_if<OrderRecord>(&entry.record);
        if (order != nullptr) bytes_ += order->sender_bytes;
      }
      bytes_total_.Add(static_cast<double>(*bytes));
      unsynced_ = options_.sync == WalSync::kInterval;
    }
  }
  // Syncs the written entries on time, even if the disk has no room for the new entries.
  if (unsynced_ && clock_.Now() - synced_ >= options_.sync_interval) {
    TD_RETURN_IF_ERROR(storage_.SyncLog());
    synced_ = clock_.Now();
    unsynced_ = false;
  }
  return appended;
}

uint64_t GroupCommitLog::Acknowledged(bool replicated) const {
  return awaits_standbys_ || replicated ? std::min(written_, replicated_) : written_;
}

std::vector<GroupCommitLog::Waiting> GroupCommitLog::TakeReady(bool all) {
  TD_REQUIRE(written_ <= appended_);
  const uint64_t last[] = {Acknowledged(false), Acknowledged(true)};
  const auto rest = std::stable_partition(waiting_.begin(), waiting_.end(), [&](const Waiting& w) {
    return all || w.number <= last[w.replicated ? 1 : 0];
  });
  std::vector<Waiting> ready(std::make_move_iterator(waiting_.begin()),
                             std::make_move_iterator(rest));
  waiting_.erase(waiting_.begin(), rest);
  return ready;
}

void GroupCommitLog::Resume(uint64_t number) {
  MutexLock lock(mu_);
  TD_REQUIRE(appended_ <= number && written_ == appended_);
  appended_ = written_ = number;
}

uint64_t GroupCommitLog::written() const {
  MutexLock lock(mu_);
  return written_;
}

void GroupCommitLog::AwaitStandbys() {
  MutexLock lock(mu_);
  LOG_IF(INFO, !awaits_standbys_) << "pushes are acknowledged when standby servers have them";
  awaits_standbys_ = true;
}

void GroupCommitLog::Replicated(uint64_t number) {
  std::vector<Waiting> ready;
  {
    MutexLock lock(mu_);
    if (number <= replicated_) return;
    replicated_ = number;
    ready = TakeReady(false);
  }
  for (const Waiting& w : ready) w.done(OkStatus());
}

void GroupCommitLog::Release(const Status& status) {
  const bool ends = !status.ok() && status.code() != StatusCode::kResourceExhausted;
  std::vector<Waiting> ready;
  {
    MutexLock lock(mu_);
    LOG_IF(ERROR, !status.ok() && status_.ok())
        << "write-ahead log: pushes are rejected: " << ToString(status);
    LOG_IF(INFO, status.ok() && !status_.ok())
        << "write-ahead log: the disk has free space again, pushes are accepted";
    status_ = status;
    closed_ = closed_ || ends;
    if (status.ok()) {
      again_ = unsynced_ ? synced_ + options_.sync_interval : Time::max();
      if (!batch_.empty()) written_ = std::max(written_, batch_.back().number);
      for (const LogEntry& entry : batch_) {
        TD_REQUIRE(waiting_bytes_ >= ValueBytes(entry));
        waiting_bytes_ -= ValueBytes(entry);
      }
    } else {
      again_ = ends ? Time::max() : clock_.Now() + std::min(options_.sync_interval, kAgain);
    }
    ready = TakeReady(!status.ok());
  }
  if (status.ok()) {
    if (!batch_.empty() && options_.on_written) options_.on_written(batch_);
    batch_.clear();
  }
  for (const Waiting& w : ready) w.done(status);
  if (ends && options_.on_end) options_.on_end(status);
}

void GroupCommitLog::Turn() {
  {
    MutexLock lock(mu_);
    if (closed_) return;
    TD_REQUIRE(!turning_);
    turning_ = true;
    std::move(entries_.begin(), entries_.end(), std::back_inserter(batch_));
    entries_.clear();
  }
  const Time begin = clock_.Now();
  const Status status = Write();
  write_seconds_.Observe(Seconds(clock_.Now() - begin));
  Release(status);
  const bool full = bytes_ >= options_.bytes_max && options_.on_full;
  if (full) bytes_ = 0;
  {
    MutexLock lock(mu_);
    turning_ = false;
    turned_.NotifyAll();
  }
  if (full) options_.on_full();
}

void GroupCommitLog::DropUnwritten() {
  std::vector<Waiting> dropped;
  {
    MutexLock lock(mu_);
    while (turning_) (void)turned_.WaitUntil(mu_, Time::max());
    if (closed_ || appended_ == written_) return;
    entries_.clear();
    batch_.clear();
    waiting_bytes_ = 0;
    appended_ = written_;
    status_ = OkStatus();  // Ready checks the free space of the next entry
    again_ = unsynced_ ? synced_ + options_.sync_interval : Time::max();
    const auto rest = std::stable_partition(waiting_.begin(), waiting_.end(),
                                            [&](const Waiting& w) { return w.number > written_; });
    dropped.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(rest));
    waiting_.erase(waiting_.begin(), rest);
  }
  for (const Waiting& w : dropped) {
    w.done(Unavailable("the write-ahead log dropped an entry that a full disk held back"));
  }
}

void GroupCommitLog::Close() {
  if (NextTurn() == Time::min()) Turn();
  std::vector<Waiting> left;
  Status why;
  {
    MutexLock lock(mu_);
    closed_ = true;
    left.swap(waiting_);
    if (status_.ok()) status_ = Unavailable("the write-ahead log is closed");
    why = status_;
  }
  for (const Waiting& w : left) w.done(why);
}

LogFlushThread::LogFlushThread(GroupCommitLog& log) : log_(log), thread_([this] { Loop(); }) {}

LogFlushThread::~LogFlushThread() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    cv_.NotifyAll();
  }
  thread_.join();
}

void LogFlushThread::Poke() {
  MutexLock lock(mu_);
  work_ = true;
  cv_.NotifyAll();
}

void LogFlushThread::Loop() {
  SetThreadName("log");
  while (true) {
    const Time next = log_.NextTurn();
    {
      MutexLock lock(mu_);
      while (!stop_ && !work_ && SteadyNow() < next) {
        if (!cv_.WaitUntil(mu_, next)) break;
      }
      if (stop_) return;
      work_ = false;
    }
    if (SteadyNow() >= log_.NextTurn()) log_.Turn();
  }
}

}  // namespace tandem::pserver
