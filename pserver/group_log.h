// An UpdateLog that writes what came together in one go (group commit).
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "pserver/storage.h"
#include "pserver/update_log.h"

namespace tandem {

struct GroupLogOptions {
  WalSync sync = WalSync::kInterval;
  Duration sync_interval = std::chrono::milliseconds(100);
  uint64_t bytes_max = uint64_t{256} << 20;  // then `on_full`
  // So much was written since the last call: time for a checkpoint, which shortens the log. Must
  // not block.
  std::function<void()> on_full;
};

class GroupLog final : public UpdateLog {
 public:
  // All but `options` must outlive the log.
  GroupLog(GroupLogOptions options, Storage& storage, Metrics& metrics);
  ~GroupLog() override;  // Close
  Status Ready() override;
  void Append(LogEntry entry) override;
  void WhenWritten(Written done) override;
  // Writes what waits, once; then those who still wait are told why not.
  void Close();

 private:
  struct Waiting {
    uint64_t number;  // when this entry is written
    Written done;
  };
  void Loop();
  // Waits for work; false at the end.
  bool Next(std::vector<LogEntry>* entries);
  Status Write(const std::vector<LogEntry>& entries);
  void Release(const Status& status, uint64_t written);

  const GroupLogOptions options_;
  Storage& storage_;
  Histogram& write_seconds_;
  Counter& bytes_total_;
  Mutex mu_;
  CondVar cv_;
  bool closing_ TD_GUARDED_BY(mu_) = false;
  bool closed_ TD_GUARDED_BY(mu_) = false;    // nothing is written any more
  Status status_ TD_GUARDED_BY(mu_);          // of the last write
  uint64_t appended_ TD_GUARDED_BY(mu_) = 0;  // numbers
  uint64_t written_ TD_GUARDED_BY(mu_) = 0;
  std::vector<LogEntry> entries_ TD_GUARDED_BY(mu_);
  std::vector<Waiting> waiting_ TD_GUARDED_BY(mu_);
  uint64_t bytes_ = 0;     // the thread's own
  bool unsynced_ = false;  // the thread's own
  Time synced_;            // the thread's own
  std::thread thread_;
};

}  // namespace tandem
