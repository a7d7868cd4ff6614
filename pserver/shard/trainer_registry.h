// The trainers of a job as one server knows them. Of each: what it pushed and how much of that is
// behind the parameters; and whether it is there, when it was heard of, whether it waits here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/recent_sum.h"
#include "pserver/state/shard_types.h"

namespace tandem {

// Not thread-safe (the shard's lock guards it). Trainers are 0 to size() - 1.
class TrainerRegistry {
 public:
  struct Trainer {
    // It was started again, or another one takes its place, at this version of the parameters: what
    // the older one pushed is none of its own.
    void Replace(uint64_t by_incarnation, uint64_t version);
    // Steps that it pushed, here or elsewhere.
    uint64_t steps() const { return std::max(pushes == 0 ? 0 : last_step + 1, told); }

    bool completed = false;
    uint64_t incarnation = 0, pushes = 0, last_step = 0, skipped = 0;
    uint64_t told = 0;                 // steps that it pushed, as its pulls say
    uint64_t pulled = 0, adopted = 0;  // versions: of its last pull, when this one first called
    SequenceWindow taken;              // includes the step being gathered
    SequenceWindow applied;            // behind the parameters
    SentNumbers numbers;               // as its pushes said
    uint64_t lost_pushes = 0;
  };

  // Both must outlive it.
  TrainerRegistry(const Clock& clock, Metrics& metrics);

  // These are all, and none of them has called yet. REQUIRES: no call waits.
  void Begin(int count);
  int size() const { return static_cast<int>(trainers_.size()); }
  Trainer& operator[](int trainer) { return trainers_[static_cast<size_t>(trainer)]; }
  const Trainer& operator[](int trainer) const { return trainers_[static_cast<size_t>(trainer)]; }
  auto begin() { return trainers_.begin(); }
  auto end() { return trainers_.end(); }

  // ---- What was pushed
  void ApplyTaken();  // what was taken is behind the parameters
  // Everything that was applied is what an image has: see marks().
  void Settle();
  // Of all trainers, as they were when Settle was called last.
  const std::vector<TrainerPushState>& marks() const { return settled_; }
  void Restore(const std::vector<TrainerPushState>& marks);  // of trainers that there are

  // ---- Who is there
  void Hear(int trainer);  // it called
  bool lost(int trainer) const { return At(trainer).lost; }
  void Find(int trainer);  // which was lost
  // Those of whom nothing was heard for so long, who wait for nobody here themselves; they are lost
  // from now on.
  std::vector<int> LoseSilent(Time now, Duration silence_max);
  Time NextLoss(Duration silence_max) const;  // Time::max(): nobody is there to be lost
  // Nobody waits for it: it completed, or is lost.
  bool Gone(int trainer) const { return (*this)[trainer].completed || lost(trainer); }
  // Trainers that are not gone and pushed fewer steps.
  std::vector<int> Behind(uint64_t steps) const;
  bool seen(int trainer) const { return At(trainer).seen; }
  Time last_heard(int trainer) const { return At(trainer).last_heard; }

  // A call of `trainer` (-1, which counts for nothing: an observer) waits here for others; it does
  // so no more, and was there until then, unless it is gone. Each Begin has its End.
  void BeginWait(int trainer);
  void EndWait(int trainer);
  bool Waits(int trainer) const { return At(trainer).waiting != 0; }

  std::vector<TrainerInfo> Info() const;

 private:
  struct Presence {
    bool seen = false, lost = false;
    int waiting = 0;               // its calls that wait here
    Time last_heard, waits_since;  // this: the first of those calls
    Counter* waited = nullptr;     // seconds in which some did
    RecentSum waited_recently;     // the same
  };
  const Presence& At(int trainer) const { return presence_[static_cast<size_t>(trainer)]; }
  Presence& At(int trainer) { return presence_[static_cast<size_t>(trainer)]; }
  bool CanBeLost(int trainer) const { return !Gone(trainer) && !Waits(trainer); }
  void ShowLost();  // in the metrics

  const Clock& clock_;
  Metrics& metrics_;
  Gauge &waiting_calls_, &lost_trainers_;
  std::vector<Trainer> trainers_;
  std::vector<Presence> presence_;  // as many
  std::vector<TrainerPushState> settled_;
  int waiting_ = 0;  // the sum of Presence::waiting
};

// "trainer 1", "trainers 1, 3"; "nobody" when empty.
std::string TrainerList(const std::vector<int>& trainers);

}  // namespace tandem
