// Makes log lines for the changes of a server's state that calls cause.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tandem::pserver {

// Makes one line for each change of state: trainers join and leave, rows move to and from other
// servers, global snapshots begin and end. The line is "" if a call changes nothing. The caller
// writes the lines to the log. Thread-safe.
class StateLog {
 public:
  // The contents of one transfer of buckets between two servers.
  struct Transfer {
    int peer = 0;  // index of the other server
    int64_t buckets = 0, rows = 0, bytes = 0;
    friend bool operator==(const Transfer&, const Transfer&) = default;
  };

  explicit StateLog(const Clock& clock) : clock_(clock) {}

  // Reports that a trainer configured the server. "": an earlier call had the same incarnation.
  std::string Joined(int trainer, uint64_t incarnation, const std::string& job);
  // Reports that a trainer completed the job. `remaining`: number of trainers that have not.
  std::string Left(int trainer, int remaining);
  // Reports that this server begins to send rows. "": an earlier call had the same contents.
  std::string TransferBegan(const Transfer& sent);
  // Reports that the transfer to server `peer` was committed or abandoned. "": no transfer to
  // `peer` has begun.
  std::string TransferEnded(int peer, bool committed);
  static std::string Received(const Transfer& received);
  // Reports that pushes wait for snapshot `number`. "": the call only renews the lease of the same
  // snapshot.
  std::string SnapshotBegan(uint64_t number);
  // Reports the end of snapshot `number`. `bytes`: written bytes; -1: the snapshot failed. "":
  // snapshot `number` has not begun.
  std::string SnapshotEnded(uint64_t number, int64_t bytes);

 private:
  struct Begun {
    Time at;
    Transfer sent;
  };

  const Clock& clock_;
  Mutex mu_;
  // By trainer that is in the job: its incarnation.
  std::map<int, uint64_t> incarnations_ TD_GUARDED_BY(mu_);
  // By index of the other server: the transfer that began.
  std::map<int, Begun> transfers_ TD_GUARDED_BY(mu_);
  uint64_t snapshot_ TD_GUARDED_BY(mu_) = 0;  // number of the last snapshot that began; 0: none
  Time snapshot_at_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::pserver
