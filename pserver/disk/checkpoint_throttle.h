// How fast images go to the disk while trainers push: the thread that writes one rests behind each
// piece, so that it works a thirtieth of its time as long as pushes come. Trainers then pay for a
// checkpoint little by little, and not all at once. The idea is that of PostgreSQL's
// checkpoint_completion_target and of RocksDB's rate limiter; what is bounded here is a share of a
// processor and no rate in bytes, as rows cost ten times what dense parameters do. What is
// written is a copy: that it is written later changes no bit of it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "common/base/mutex.h"

namespace tandem {

// Thread-safe.
class CheckpointThrottle {
 public:
  struct Options {
    std::function<uint64_t()> pushes;  // how many have come up to now
    std::function<Duration()> worked;  // by the calling thread; null: its processor time
  };
  explicit CheckpointThrottle(Options options);

  // For Wish: a caller waits for its answer, which may have a deadline of seconds; nobody does.
  static constexpr Duration kAnswer = std::chrono::seconds(2);
  static constexpr Duration kPeriodic = std::chrono::seconds(30);

  // Somebody wants an image written, from the constructor to the destructor. The writer rests only
  // while there is one alone: nobody waits for somebody else's rests.
  class Wish {
   public:
    // The rests of one file are no longer than `patience` in all; 0: nobody rests meanwhile. `pace`
    // may be null, and must outlive this.
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
    explicit File(CheckpointThrottle* pace);  // null: it never rests
    // A piece is written. Rests, when a push came since the last call; ends that at another Wish.
    void Wrote();
    Duration rested() const { return rested_; }  // what it was about to, in all

   private:
    CheckpointThrottle* const pace_;
    Duration worked_{}, rested_{};
    uint64_t pushes_ = 0;
  };

 private:
  // Waits, unless somebody is in a hurry. Gives how long it was to be.
  Duration Rest(Duration wanted, Duration rested);

  const Options options_;
  Mutex mu_;
  CondVar changed_;
  std::multiset<Duration> patience_ TD_GUARDED_BY(mu_);  // of those who want something
};

}  // namespace tandem
