// The steps of a standby that follows a primary, without thread, network and clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "pserver/state/wal.h"
#include "pserver/storage/checkpoint_files.h"

namespace tandem {
class FetchCheckpointReply;
class FetchCheckpointRequest;
class FetchLogReply;
class FetchLogRequest;
}  // namespace tandem

namespace tandem::pserver {

// The state of a standby. LogFetcher calls it from one thread at a time.
class StandbyState {
 public:
  struct Position {
    LogTerm term;
    bool has_state = false;
    uint64_t last = 0;  // number of the last stored entry
    // The state has all entries that this standby has ever acknowledged. false: it has a fetched
    // checkpoint, and has not reached the primary's last entry since then.
    bool complete = true;
    // A stored state was damaged and was dropped. The state that the standby had is thus lost here.
    bool dropped = false;
  };

  virtual ~StandbyState() = default;
  virtual Position position() const = 0;
  // Stores and applies entries, which follow the last entry. After OK they are as durable as the
  // primary's entries.
  virtual Status Append(std::vector<LogEntry> entries) = 0;
  // Records that the state belongs to `term` too.
  virtual Status SetTerm(const LogTerm& term) = 0;
  // Returns the path of a new file for the values of a checkpoint.
  virtual StatusOr<std::string> NewValuesFile() = 0;
  // Records that the state is complete.
  virtual Status SetComplete() = 0;
  // Replaces the state by a checkpoint (CheckpointFiles::InstallCheckpoint), which is incomplete.
  virtual Status Install(const std::string& record, const std::string& path,
                         const LogTerm& term) = 0;
};

// The calls of a standby to its primary. A call blocks, for `timeout` at most.
class PrimaryCalls {
 public:
  virtual ~PrimaryCalls() = default;
  virtual Status FetchLog(const FetchLogRequest& request, Duration timeout,
                          FetchLogReply* reply) = 0;
  virtual Status FetchCheckpoint(const FetchCheckpointRequest& request, Duration timeout,
                                 FetchCheckpointReply* reply) = 0;
  // Returns whether the standby stops. Then it makes no further call.
  virtual bool stopped() const = 0;
};

// Fetches the log and the checkpoint of a primary. Not thread-safe.
class LogFetcher {
 public:
  struct Options {
    std::string job;
    int member = 1;            // number of this standby among its server's members, from 0
    uint64_t incarnation = 0;  // increases at each start of the standby
    Duration wait = std::chrono::seconds(1);  // maximum time for which the primary holds a request
    bool replica = false;                     // true: a replica, which has no number
  };
  enum class Next : uint8_t {
    kNow,    // the next step may follow immediately
    kPause,  // the primary has no state yet, so the next step should follow after a pause
  };

  // `state` and `calls` must outlive the fetcher.
  LogFetcher(Options options, StandbyState& state, PrimaryCalls& calls);

  // Makes one request for entries and applies its reply. If the state cannot be continued with
  // entries, fetches the whole checkpoint. CANCELLED: the standby stops. DATA_LOSS: the primary
  // sent a damaged entry or an incomplete checkpoint.
  StatusOr<Next> FetchOnce();

 private:
  StatusOr<Next> FetchCheckpoint();
  // Writes the values of a checkpoint to the file `path`. `reply`: the reply with the first part.
  Status CopyValues(FetchCheckpointRequest request, FetchCheckpointReply reply,
                    const std::string& path);

  const Options options_;
  StandbyState& state_;
  PrimaryCalls& calls_;
};

}  // namespace tandem::pserver
