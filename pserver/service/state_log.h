// Makes the lines of the server's log for state changes that calls cause.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tandem::pserver {

// Makes one line for each change of state: trainers join and leave, rows move to and from other
// servers, global snapshots begin and end. A function returns "" if the call changes nothing. The
// caller writes the lines to the log. Thread-safe.
class StateLog {
 public:
  // The contents of one transfer of buckets between two servers.
  struct Transfer {
    int peer = 0;  // index of the other server
    int64_t buckets = 0, rows = 0, bytes = 0;
    friend bool operator==(const Transfer&, const Transfer&) = default;
  };

  explicit StateLog(const Clock& clock) : clock_(clock) {}

  // Returns the line for a trainer that configured the server. "": an earlier call had the same
  // incarnation.
  std::string Joined(int trainer, uint64_t incarnation, const std::string& job);
  // Returns the line for a trainer that completed the job. `remaining`: number of trainers that
  // have not completed the job.
  std::string Left(int trainer, int remaining);
  // Returns the line for the begin of a transfer to another server. "": an earlier call had the
  // same contents.
  std::string TransferBegan(const Transfer& sent);
  // Returns the line for the end of the transfer to server `peer`. "": no transfer to `peer` has
  // begun.
  std::string TransferEnded(int peer, bool committed);
  static std::string Received(const Transfer& received);
  // Returns the line for the begin of snapshot `number`, for which pushes wait. "": the call only
  // renews the lease of the same snapshot.
  std::string SnapshotBegan(uint64_t number);
  // Returns the line for the end of snapshot `number`. `bytes`: written bytes; -1: the snapshot
  // failed. "": snapshot `number` has not begun.
  std::string SnapshotEnded(uint64_t number, int64_t bytes);

 private:
  struct Begun {
    Time at;
    Transfer sent;
  };

  const Clock& clock_;
  Mutex mu_;
  // By trainer that has joined and not completed: its incarnation.
  std::map<int, uint64_t> incarnations_ TD_GUARDED_BY(mu_);
  // By index of the target server: the transfer in progress.
  std::map<int, Begun> transfers_ TD_GUARDED_BY(mu_);
  uint64_t snapshot_ TD_GUARDED_BY(mu_) = 0;  // number of the last snapshot that began; 0: none
  Time snapshot_at_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::pserver
