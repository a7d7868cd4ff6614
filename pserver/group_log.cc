#include "pserver/group_log.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/runner.h"

namespace tandem {

StatusOr<WalSync> ParseWalSync(const std::string& text) {
  if (text == "none") return WalSync::kNone;
  if (text == "interval") return WalSync::kInterval;
  if (text == "always") return WalSync::kAlways;
  return InvalidArgument("wal_sync \"%s\"; expected none, interval or always", text);
}

GroupLog::GroupLog(GroupLogOptions options, Storage& storage, Metrics& metrics)
    : options_(std::move(options)),
      storage_(storage),
      write_seconds_(metrics.GetHistogram(
          "tandem_pserver_log_write_seconds",
          "Time to write, and where it was due to sync, a group of changes of the update log",
          {1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10})),
      bytes_total_(
          metrics.GetCounter("tandem_pserver_log_bytes_total", "Bytes written to the update log")),
      synced_(SteadyNow()),
      thread_([this] { Loop(); }) {}

GroupLog::~GroupLog() { Close(); }

Status GroupLog::Ready() {
  MutexLock lock(mu_);
  return status_;
}

void GroupLog::Append(LogEntry entry) {
  MutexLock lock(mu_);
  appended_ = entry.number;
  entries_.push_back(std::move(entry));
  cv_.NotifyAll();
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

bool GroupLog::Next(std::vector<LogEntry>* entries) {
  MutexLock lock(mu_);
  // With entries that could not be written: again, a little later.
  const bool again = !entries->empty();
  const Time wake = again || unsynced_ ? SteadyNow() + options_.sync_interval : Time::max();
  while (!closing_ && (again || entries_.empty())) {
    if (!cv_.WaitUntil(mu_, wake)) break;
  }
  for (LogEntry& entry : entries_) entries->push_back(std::move(entry));
  entries_.clear();
  return !closing_ || (!entries->empty() && !again);
}

Status GroupLog::Write(const std::vector<LogEntry>& entries) {
  const bool always = options_.sync == WalSync::kAlways;
  if (!entries.empty()) {
    TD_ASSIGN_OR_RETURN(const size_t bytes, storage_.AppendLog(entries, always));
    bytes_ += bytes;
    bytes_total_.Add(static_cast<double>(bytes));
    unsynced_ = options_.sync == WalSync::kInterval;
  }
  if (unsynced_ && SteadyNow() - synced_ >= options_.sync_interval) {
    TD_RETURN_IF_ERROR(storage_.SyncLog());
    synced_ = SteadyNow();
    unsynced_ = false;
  }
  return OkStatus();
}

void GroupLog::Release(const Status& status, uint64_t written) {
  std::vector<Waiting> ready;
  {
    MutexLock lock(mu_);
    LOG_IF(ERROR, !status.ok() && status_.ok()) << "update log: " << ToString(status);
    status_ = status;
    if (status.ok()) written_ = std::max(written_, written);
    const auto rest = std::stable_partition(waiting_.begin(), waiting_.end(),
                                            [&](const Waiting& w)
                                                TD_NO_ANALYSIS { return w.number <= written_; });
    std::move(waiting_.begin(), rest, std::back_inserter(ready));
    waiting_.erase(waiting_.begin(), rest);
  }
  for (const Waiting& w : ready) w.done(OkStatus());
}

void GroupLog::Loop() {
  SetThreadName("log");
  std::vector<LogEntry> entries;
  while (Next(&entries)) {
    const uint64_t last = entries.empty() ? 0 : entries.back().number;
    const Time begin = SteadyNow();
    const Status status = Write(entries);
    write_seconds_.Observe(Seconds(SteadyNow() - begin));
    if (status.ok()) entries.clear();
    Release(status, last);
    if (bytes_ >= options_.bytes_max && options_.on_full) {
      bytes_ = 0;
      options_.on_full();
    }
  }
}

void GroupLog::Close() {
  {
    MutexLock lock(mu_);
    closing_ = true;
    cv_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
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

}  // namespace tandem
