// Chooses the ranks that end and the ranks that start if the user changes the number of ranks of a
// running elastic job (`tandem scale --workers=N`).
#pragma once

#include <map>
#include <set>
#include <vector>

#include "common/base/clock.h"

namespace tandem::deploy {

// A chosen rank is retired: it leaves the world after its current step, reports that it could join
// again, and is then dismissed, which means that it gets SIGTERM. The class reads no clock. Not
// thread-safe.
class RankScaling {
 public:
  // `retire_max`: time after which a retired rank that still runs is killed. The other ranks have
  // its state.
  explicit RankScaling(Duration retire_max) : retire_max_(retire_max) {}

  struct Change {
    std::vector<int> retire, start;
  };
  // Sets the desired number of ranks. `running` are the ranks that run, `members` the ranks of the
  // world, `ranks` the number of all ranks. The newest ranks are retired first: ranks that are no
  // members yet, then the members that joined last, of equal ones the highest. The lowest lost
  // ranks start first.
  Change SetTarget(int target, int ranks, const std::set<int>& running,
                   const std::set<int>& members, Time now);
  // A rank has joined the world of the running job.
  void OnJoined(int rank) { joined_[rank] = ++joins_; }
  bool IsRetired(int rank) const { return retired_.contains(rank); }
  // Returns whether the rank must get SIGTERM now: it is retired, and it did not get it before.
  bool Dismiss(int rank);
  // Returns the retired ranks that have run for too long. Returns each of them once.
  std::vector<int> TakeOverdue(Time now);
  // Returns the time of the next necessary TakeOverdue; Time::max(): none.
  Time wakeup() const;
  // A retired rank has ended. Returns the ranks that start now, because the desired number has been
  // raised in the meantime. REQUIRES: IsRetired(rank).
  std::vector<int> OnEnded(int rank, int ranks, const std::set<int>& running);

 private:
  struct Retired {
    Time kill_at;
    bool dismissed = false;
  };
  std::vector<int> Missing(int ranks, const std::set<int>& running) const;

  const Duration retire_max_;
  std::map<int, Retired> retired_;  // by rank
  std::map<int, int> joined_;       // by rank: the order of joining; no entry: from the beginning
  int joins_ = 0;
  int growing_to_ = 0;  // number of ranks that the user requested and that do not run yet; 0: none
};

}  // namespace tandem::deploy
