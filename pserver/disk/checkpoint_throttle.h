// Limits the rate at which snapshots are written while trainers push. While pushes arrive, the
// writing thread pauses after each chunk, so that it works for one thirtieth of the time. The
// pauses spread the cost of a checkpoint over time. Sources: PostgreSQL's
// checkpoint_completion_target and RocksDB's rate limiter. The limit is a share of CPU time instead
// of bytes per second, because a byte of rows costs ten times as much CPU time as a byte of dense
// parameters. The writer writes a copy of the state, so the pauses do not change the snapshot.
#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "common/base/mutex.h"

namespace tandem::pserver {

// Throttles all writers of snapshots of one server. Thread-safe.
class CheckpointThrottle {
 public:
  struct Options {
    std::function<uint64_t()> pushes;  // returns the number of pushes received so far
    // Returns the work time of the calling thread so far; null: the CPU time of the thread is used.
    std::function<Duration()> worked;
  };
  explicit CheckpointThrottle(Options options);

  // Values of `patience` for Wish. kAnswer: a caller waits for the snapshot, and the deadline of
  // its call may be a few seconds. kPeriodic: no caller waits.
  static constexpr Duration kAnswer = std::chrono::seconds(2);
  static constexpr Duration kPeriodic = std::chrono::seconds(30);

  // A pending request for a snapshot, from construction to destruction of the object. The writer
  // pauses only while exactly one request is pending, so the pauses for one request never delay
  // another request.
  class Wish {
   public:
    // `patience`: maximum total pause while one file is written. 0: no writer pauses while this
    // request is pending. `pace` null: the object has no effect; otherwise `pace` must outlive this
    // object.
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
    // Pauses if a push arrived since the last call. The caller calls Wrote after each written
    // chunk. A new Wish ends the pause.
    void Wrote();
    Duration rested() const { return rested_; }  // sum of the intended pauses

   private:
    CheckpointThrottle* const pace_;
    Duration worked_{}, rested_{};
    uint64_t pushes_ = 0;
  };

 private:
  // Pauses for `wanted`, or less if the patience of the request would be exceeded. Does not pause
  // unless exactly one request is pending. `rested`: sum of the earlier pauses for this file.
  // Returns the intended duration of the pause.
  Duration Rest(Duration wanted, Duration rested);

  const Options options_;
  Mutex mu_;
  CondVar changed_;
  std::multiset<Duration> patience_ TD_GUARDED_BY(mu_);  // patience of each pending request
};

}  // namespace tandem::pserver
