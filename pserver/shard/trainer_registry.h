// State of each trainer as seen by one server: accepted pushes, pushes applied to the parameters,
// liveness, time of the last call, waiting calls.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/recent_sum.h"
#include "common/base/require.h"
#include "common/tables/push_header.h"
#include "pserver/state/shard_info.h"
#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// Trainers are 0 to size() - 1. Not thread-safe (the shard's lock guards it).
class TrainerRegistry {
 public:
  struct Trainer {
    // The trainer was restarted or replaced at this version of the parameters. The pushes of older
    // incarnations do not count for the new one.
    void Replace(uint64_t by_incarnation, uint64_t version);
    // Steps that it has pushed, here or elsewhere.
    uint64_t steps() const { return std::max(pushes == 0 ? 0 : last_step + 1, told); }

    bool completed = false;
    uint64_t incarnation = 0, pushes = 0, last_step = 0, skipped = 0;
    uint64_t told = 0;  // pushed steps, as reported by its pulls
    // versions: of its last pull, and of the first call of this incarnation
    uint64_t pulled = 0, adopted = 0;
    SequenceWindow taken;    // accepted; includes the step being gathered
    SequenceWindow applied;  // applied to the parameters
    SentNumbers numbers;     // as reported by its pushes
    uint64_t lost_pushes = 0;
  };

  // Both must outlive it.
  TrainerRegistry(const Clock& clock, Metrics& metrics);

  // Creates `count` trainers, none of which has called yet. REQUIRES: no call waits.
  void Begin(int count);
  int size() const { return static_cast<int>(trainers_.size()); }
  Trainer& operator[](int trainer) {
    TD_REQUIRE(trainer >= 0 && trainer < size());
    return trainers_[static_cast<size_t>(trainer)];
  }
  const Trainer& operator[](int trainer) const { return trainers_[static_cast<size_t>(trainer)]; }
  auto begin() { return trainers_.begin(); }
  auto end() { return trainers_.end(); }

  // ---- Accepted pushes --------------------------------------------------------------------------
  void ApplyTaken();  // marks all accepted pushes as applied
  // Copies the state of applied pushes for the next snapshot: see marks().
  void Settle();
  // The states of all trainers, as of the last Settle.
  const std::vector<TrainerPushState>& marks() const { return settled_; }
  void Restore(const std::vector<TrainerPushState>& marks);  // for existing trainers

  // ---- Liveness ---------------------------------------------------------------------------------
  void Hear(int trainer);  // the trainer called
  bool lost(int trainer) const { return At(trainer).lost; }
  void OnReturned(int trainer);  // a lost trainer called again. REQUIRES: lost(trainer)
  // Declares trainers lost that made no call for `silence_max` and have no waiting call here.
  // Returns them.
  std::vector<int> LoseSilent(Time now, Duration silence_max);
  Time NextLoss(Duration silence_max) const;  // Time::max(): no trainer can be lost
  // Other trainers do not wait for it: it completed or is lost.
  bool Gone(int trainer) const { return (*this)[trainer].completed || lost(trainer); }
  // Trainers that are not gone and have pushed fewer steps.
  std::vector<int> Behind(uint64_t steps) const;
  // The trainer reports that it pushed `steps` steps, here or elsewhere. Returns whether that is
  // new: a server that was restarted, or received its first bucket, has not seen those pushes.
  bool RaiseSteps(int trainer, uint64_t steps);
  bool seen(int trainer) const { return At(trainer).seen; }
  Time last_heard(int trainer) const { return At(trainer).last_heard; }

  // Begin and end of a waiting call of `trainer` (-1: an observer, ignored). A trainer with a
  // waiting call counts as alive until the end of the wait, unless it is gone. Each Begin needs an
  // End.
  void BeginWait(int trainer);
  void EndWait(int trainer);
  bool Waits(int trainer) const { return At(trainer).waiting != 0; }

  std::vector<TrainerInfo> Info() const;

 private:
  struct Presence {
    bool seen = false, lost = false;
    int waiting = 0;               // number of its waiting calls
    Time last_heard, waits_since;  // waits_since: begin of the first of those calls
    Counter* waited = nullptr;     // seconds in which at least one waited
    RecentSum waited_recently;     // the same, recent
  };
  const Presence& At(int trainer) const {
    TD_REQUIRE(trainer >= 0 && trainer < size());
    return presence_[static_cast<size_t>(trainer)];
  }
  Presence& At(int trainer) { return presence_[static_cast<size_t>(trainer)]; }
  bool CanBeLost(int trainer) const { return !Gone(trainer) && !Waits(trainer); }
  void ShowLost();  // in the metrics

  const Clock& clock_;
  Metrics& metrics_;
  Gauge &waiting_calls_, &lost_trainers_;
  std::vector<Trainer> trainers_;
  std::vector<Presence> presence_;  // by trainer
  std::vector<TrainerPushState> settled_;
  int waiting_ = 0;  // sum of Presence::waiting
};

// Returns "trainer 1" or "trainers 1, 3" as text, and a placeholder if the list is empty.
std::string TrainerList(const std::vector<int>& trainers);

}  // namespace tandem::pserver
