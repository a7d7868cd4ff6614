// Limits the rate at which snapshots are written while trainers push. The writing thread rests
// after each chunk, so that it works a thirtieth of its time while pushes arrive. The cost of a
// checkpoint is thus spread over time. The idea is that of PostgreSQL's
// checkpoint_completion_target and of RocksDB's rate limiter. The limit is a share of a processor,
// not bytes per second, because rows cost ten times as much as dense parameters. The data is a
// copy, so a later write does not change it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "common/base/mutex.h"

namespace tandem::pserver {

// Shared by all writers of snapshots. Thread-safe.
class CheckpointThrottle {
 public:
  struct Options {
    std::function<uint64_t()> pushes;  // number of pushes received so far
    std::function<Duration()> worked;  // work time of the calling thread; null: its processor time
  };
  explicit CheckpointThrottle(Options options);

  // For Wish: kAnswer if a caller waits for a reply, which may have a deadline of seconds;
  // kPeriodic if no caller waits.
  static constexpr Duration kAnswer = std::chrono::seconds(2);
  static constexpr Duration kPeriodic = std::chrono::seconds(30);

  // A request for a snapshot, from construction to destruction. The writer rests only while there
  // is a single request, so that no request waits for rests made for another.
  class Wish {
   public:
    // `patience`: maximum total rest for one file; 0: no writer rests while this request exists.
    // `pace` may be null and must outlive this.
    Wish(CheckpointThrottle* pace, Duration patience);
    ~Wish();
    Wish(const Wish&) = delete;
    Wish& operator=(const Wish&) = delete;

   private:
    CheckpointThrottle* const pace_;
    const Duration patience_;
  };

  // One file that the calling thread writes. Not thread-safe.
  class File {
   public:
    explicit File(CheckpointThrottle* pace);  // null: never rests
    // Call after each written chunk. Rests if a push arrived since the last call; another Wish ends
    // the rest.
    void Wrote();
    Duration rested() const { return rested_; }  // total of intended rests

   private:
    CheckpointThrottle* const pace_;
    Duration worked_{}, rested_{};
    uint64_t pushes_ = 0;
  };

 private:
  // Waits while there is a single request, within its patience. Returns the intended duration.
  Duration Rest(Duration wanted, Duration rested);

  const Options options_;
  Mutex mu_;
  CondVar changed_;
  std::multiset<Duration> patience_ TD_GUARDED_BY(mu_);  // one entry for each current request
};

}  // namespace tandem::pserver
