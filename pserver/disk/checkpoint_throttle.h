// Limits the rate at which snapshots are written while trainers push. While pushes arrive, the
// writing thread pauses after each chunk, so that it works for one thirtieth of the time. The cost
// of a checkpoint is thus spread over time. Sources: PostgreSQL's checkpoint_completion_target and
// RocksDB's rate limiter. The limit is a share of CPU time, not bytes per second. A byte of rows
// costs ten times as much CPU time as a byte of dense parameters. The written data is a copy, so
// the pauses do not change the snapshot.
#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "common/base/mutex.h"

namespace tandem::pserver {

// Limits all writers of snapshots of one server. Thread-safe.
class CheckpointThrottle {
 public:
  struct Options {
    std::function<uint64_t()> pushes;  // returns the number of pushes received so far
    // Returns the work time of the calling thread; null: its processor time is used.
    std::function<Duration()> worked;
  };
  explicit CheckpointThrottle(Options options);

  // Values of `patience` for Wish. kAnswer: a caller waits for the snapshot, and its call may have
  // a deadline of a few seconds. kPeriodic: no caller waits.
  static constexpr Duration kAnswer = std::chrono::seconds(2);
  static constexpr Duration kPeriodic = std::chrono::seconds(30);

  // A pending request for a snapshot, from construction to destruction. The writer pauses only if
  // exactly one request is pending. Thus the pauses for one request delay no other request.
  class Wish {
   public:
    // `patience`: maximum total pause while one file is written; 0: no writer pauses while this
    // request exists. `pace` may be null and must outlive this object.
    Wish(CheckpointThrottle* pace, Duration patience);
    ~Wish();
    Wish(const Wish&) = delete;
    Wish& operator=(const Wish&) = delete;

   private:
    CheckpointThrottle* const pace_;
    const Duration patience_;
  };

  // Throttles the writing of one file by the calling thread. Not thread-safe.
  class File {
   public:
    explicit File(CheckpointThrottle* pace);  // `pace` null: the writer never pauses
    // Call it after each written chunk. Pauses if a push arrived since the last call. Another Wish
    // ends the pause.
    void Wrote();
    Duration rested() const { return rested_; }  // total of the intended pauses

   private:
    CheckpointThrottle* const pace_;
    Duration worked_{}, rested_{};
    uint64_t pushes_ = 0;
  };

 private:
  // Pauses while exactly one request is pending, within its patience. `rested`: total pause so far
  // for this file. Returns the intended duration.
  Duration Rest(Duration wanted, Duration rested);

  const Options options_;
  Mutex mu_;
  CondVar changed_;
  std::multiset<Duration> patience_ TD_GUARDED_BY(mu_);  // patience of each pending request
};

}  // namespace tandem::pserver
