#include "pserver/group_log.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/nearest.h"
#include "common/base/runner.h"

namespace tandem {

StatusOr<WalSync> ParseWalSync(const std::string& text) {
  if (text == "none") return WalSync::kNone;
  if (text == "interval") return WalSync::kInterval;
  if (text == "always") return WalSync::kAlways;
  return InvalidArgument("wal_sync \"%s\"; expected none, interval or always [TD1006]%s", text,
                         OrDidYouMean(text, {"none", "interval", "always"}));
}

GroupLog::GroupLog(GroupLogOptions options, const Clock& clock, Storage& storage, Metrics& metrics)
    : options_(std::move(options)),
      clock_(clock),
      storage_(storage),
      write_seconds_(metrics.GetHistogram(
          "tandem_pserver_log_write_seconds",
          "Time to write, and where it was due to sync, a group of changes of the update log",
          {1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10})),
      bytes_total_(
          metrics.GetCounter("tandem_pserver_log_bytes_total", "Bytes written to the update log")),
      again_(Time::max()),
      synced_(clock.Now()) {}

GroupLog::~GroupLog() { Close(); }

Status GroupLog::Ready() {
  MutexLock lock(mu_);
  return status_;
}

void GroupLog::Append(LogEntry entry) {
  {
    MutexLock lock(mu_);
    appended_ = entry.number;
    entries_.push_back(std::move(entry));
  }
  if (options_.on_work) options_.on_work();
}

void GroupLog::WhenWritten(Written done) {
  Status now;
  {
    MutexLock lock(mu_);
    if (appended_ > written_ && !closed_) {
      waiting_.push_back({appended_, std::move(done)});
      return;
    }
    if (appended_ > written_) now = status_;
  }
  done(now);
}

Time GroupLog::NextTurn() const {
  MutexLock lock(mu_);
  // What could not be written is tried again a little later, whatever comes meanwhile.
  return status_.ok() && !entries_.empty() ? Time::min() : again_;
}

Status GroupLog::Write() {
  const bool always = options_.sync == WalSync::kAlways;
  if (!batch_.empty()) {
    TD_ASSIGN_OR_RETURN(const size_t bytes, storage_.AppendLog(batch_, always));
    bytes_ += bytes;
    for (const LogEntry& entry : batch_) bytes_ += entry.sender_bytes;
    bytes_total_.Add(static_cast<double>(bytes));
    unsynced_ = options_.sync == WalSync::kInterval;
  }
  if (unsynced_ && clock_.Now() - synced_ >= options_.sync_interval) {
    TD_RETURN_IF_ERROR(storage_.SyncLog());
    synced_ = clock_.Now();
    unsynced_ = false;
  }
  return OkStatus();
}

void GroupLog::Release(const Status& status) {
  std::vector<Waiting> ready;
  {
    MutexLock lock(mu_);
    LOG_IF(ERROR, !status.ok() && status_.ok()) << "update log: " << ToString(status);
    status_ = status;
    if (!status.ok()) {
      again_ = clock_.Now() + options_.sync_interval;
    } else {
      again_ = unsynced_ ? synced_ + options_.sync_interval : Time::max();
      if (!batch_.empty()) written_ = std::max(written_, batch_.back().number);
    }
    const auto rest = std::stable_partition(waiting_.begin(), waiting_.end(),
                                            [&](const Waiting& w)
                                                TD_NO_ANALYSIS { return w.number <= written_; });
    std::move(waiting_.begin(), rest, std::back_inserter(ready));
    waiting_.erase(waiting_.begin(), rest);
  }
  if (status.ok()) batch_.clear();
  for (const Waiting& w : ready) w.done(OkStatus());
}

void GroupLog::Turn() {
  {
    MutexLock lock(mu_);
    std::move(entries_.begin(), entries_.end(), std::back_inserter(batch_));
    entries_.clear();
  }
  const Time begin = clock_.Now();
  const Status status = Write();
  write_seconds_.Observe(Seconds(clock_.Now() - begin));
  Release(status);
  if (bytes_ >= options_.bytes_max && options_.on_full) {
    bytes_ = 0;
    options_.on_full();
  }
}

void GroupLog::Close() {
  if (NextTurn() == Time::min()) Turn();
  std::vector<Waiting> left;
  Status why;
  {
    MutexLock lock(mu_);
    closed_ = true;
    left.swap(waiting_);
    if (status_.ok()) status_ = Unavailable("the update log is closed");
    why = status_;
  }
  for (const Waiting& w : left) w.done(why);
}

LogDriver::LogDriver(GroupLog& log) : log_(log), thread_([this] { Loop(); }) {}

LogDriver::~LogDriver() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    cv_.NotifyAll();
  }
  thread_.join();
}

void LogDriver::Poke() {
  MutexLock lock(mu_);
  work_ = true;
  cv_.NotifyAll();
}

void LogDriver::Loop() {
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

}  // namespace tandem
