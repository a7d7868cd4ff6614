// The state of each trainer as one server knows it: accepted and applied pushes, liveness, waiting
// calls.
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

// The trainers of a job, which have the ranks 0 to size() - 1. Not thread-safe (the shard's lock
// guards it).
class TrainerRegistry {
 public:
  struct Trainer {
    // Records that a newer incarnation of the trainer called when the parameters had `version`.
    // Resets the windows and numbers of the older incarnation's pushes.
    void Replace(uint64_t by_incarnation, uint64_t version);
    // Returns the number of steps that the trainer has pushed, to this server or to other servers.
    uint64_t steps() const { return std::max(pushes == 0 ? 0 : last_step + 1, told); }

    // Adds the pushes to `lost_pushes` that have ended, according to `reported`, and are not in
    // `taken`, because an earlier primary of the server was lost with them. Subtracts push
    // `sequence` if it was counted and a delayed copy of it arrives now; 0: no push arrives.
    // `server`: index of the server. Call before `taken` and `numbers` change. Returns the change.
    int64_t CountLost(const SentNumbers& reported, uint64_t sequence, int server);

    bool completed = false;
    uint64_t incarnation = 0, pushes = 0, last_step = 0, skipped = 0;
    uint64_t told = 0;  // number of pushed steps that pulls of the trainer reported
    // `pulled`: version of the trainer's last pull. `adopted`: version at the first call of its
    // incarnation.
    uint64_t pulled = 0, adopted = 0;
    SequenceWindow taken;    // accepted pushes, including those of the step being gathered
    SequenceWindow applied;  // pushes that are applied to the parameters
    SentNumbers numbers;     // message numbers that pushes of the trainer reported
    uint64_t lost_pushes = 0;
    // Number of the trainer's steps in pushes with PushHeader::once, and this number when the
    // incarnation began or when buckets moved to the server. A push of a step below `once_adopted`
    // has no effect.
    uint64_t once_steps = 0, once_adopted = 0;
    // true: the shard was restored after the incarnation began, so that the incarnation continues
    // after steps that the shard does not have. Only for trainers with once_steps.
    bool rolled_back = false;
    // true: the incarnation had pushed the step after the restored version, or a later one, when
    // the shard was restored, and has not pushed since. In sync mode it waits for steps that no
    // trainer pushes again.
    bool ahead = false;
  };

  // Both arguments must outlive this object.
  TrainerRegistry(const Clock& clock, Metrics& metrics);

  // Resets the registry to `count` trainers that have not called yet. REQUIRES: no call waits.
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
  // Copies the state of the applied pushes. marks() returns this copy for the next snapshot.
  void Settle();
  // The states of all trainers at the last Settle.
  const std::vector<TrainerPushState>& marks() const { return settled_; }
  // Sets the states of trainers from a snapshot of this version. Ignores marks of ranks that do not
  // exist. Incarnations that called before Begin must not push any more steps, also if they are
  // newer than the snapshot.
  void Restore(const std::vector<TrainerPushState>& marks, uint64_t version);

  // ---- Liveness ---------------------------------------------------------------------------------
  void Hear(int trainer);  // records that the trainer called
  bool lost(int trainer) const { return At(trainer).lost; }
  void OnReturned(int trainer);  // records a call of a lost trainer. REQUIRES: lost(trainer)
  // Marks trainers as lost that made no call for `silence_max` and have no waiting call on this
  // server. Returns the trainers that became lost.
  std::vector<int> LoseSilent(Time now, Duration silence_max);
  // Earliest time at which a trainer can become lost; Time::max(): no trainer can.
  Time NextLoss(Duration silence_max) const;
  // Returns whether other trainers no longer wait for this trainer: it completed or is lost.
  bool Gone(int trainer) const { return (*this)[trainer].completed || lost(trainer); }
  // Returns the trainers that are not gone and have pushed fewer than `steps` steps.
  std::vector<int> Behind(uint64_t steps) const;
  // Records that the trainer reported `steps` pushed steps, to this server or to other servers.
  // Returns whether the number is higher than all earlier reports. The report matters if the server
  // does not know earlier pushes, because it was restarted or has just received its first bucket.
  bool RaiseSteps(int trainer, uint64_t steps);
  bool seen(int trainer) const { return At(trainer).seen; }
  Time last_heard(int trainer) const { return At(trainer).last_heard; }

  // Called when a call of `trainer` begins to wait (BeginWait) and stops to wait (EndWait). Each
  // BeginWait needs an EndWait. A trainer with a waiting call counts as alive, unless the trainer
  // is gone. Both functions ignore `trainer` -1, an observer.
  void BeginWait(int trainer);
  void EndWait(int trainer);
  bool Waits(int trainer) const { return At(trainer).waiting != 0; }

  std::vector<TrainerInfo> Info() const;

 private:
  struct Presence {
    bool seen = false, lost = false;
    int waiting = 0;  // number of the trainer's waiting calls
    // last_heard: time of the trainer's last call. waits_since: time at which the first of the
    // waiting calls began to wait.
    Time last_heard, waits_since;
    Counter* waited = nullptr;  // total seconds in which at least one call of the trainer waited
    RecentSum waited_recently;  // seconds of `waited` in the last minute
  };
  const Presence& At(int trainer) const {
    TD_REQUIRE(trainer >= 0 && trainer < size());
    return presence_[static_cast<size_t>(trainer)];
  }
  void RollBack(uint64_t version);
  Presence& At(int trainer) { return presence_[static_cast<size_t>(trainer)]; }
  bool CanBeLost(int trainer) const { return !Gone(trainer) && !Waits(trainer); }
  void ShowLost();  // sets the metric with the number of lost trainers

  const Clock& clock_;
  Metrics& metrics_;
  Gauge &waiting_calls_, &lost_trainers_;
  std::vector<Trainer> trainers_;
  std::vector<Trainer> before_;     // the trainers before the last Begin, until Restore
  std::vector<Presence> presence_;  // by trainer: its liveness
  std::vector<TrainerPushState> settled_;
  int waiting_ = 0;  // number of waiting calls of all trainers
};

// Returns "trainer 1", "trainers 1, 3", or "no trainer" if the list is empty.
std::string TrainerList(const std::vector<int>& trainers);

}  // namespace tandem::pserver
