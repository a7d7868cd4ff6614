// How long each rank of a job has waited for the others, which all ranks tell each other now and
// then: who hardly waits is who is waited for.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective/communicator.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tandem::trainer {

// Thread-safe, but BeginStep, which is the step's thread's. Outlives the communicators.
class RankWaits {
 public:
  static constexpr int64_t kStepsEach = 50;  // between two exchanges

  // A communication of this rank begins, or has ended. Of several at once the time counts once:
  // from the moment when this rank has something to give until it has all that it waits for.
  void Began() TD_EXCLUDES(mu_);
  void Ended() TD_EXCLUDES(mu_);

  // Before each step, on all ranks: every kStepsEach-th starts an exchange over `hosts`, before
  // which the last one must end, within `patience`. Fails for its deadline alone.
  Status BeginStep(int64_t step, collective::Communicator& hosts, Duration patience)
      TD_EXCLUDES(mu_);

  // By rank, as of the last exchange; empty: there was none.
  std::vector<double> Seconds() const TD_EXCLUDES(mu_);

 private:
  Status EndExchange(Duration patience) TD_EXCLUDES(mu_);

  mutable Mutex mu_;
  int under_way_ TD_GUARDED_BY(mu_) = 0;
  Time began_ TD_GUARDED_BY(mu_);  // the first of those under way
  Duration waited_ TD_GUARDED_BY(mu_) = Duration::zero();
  std::vector<double> told_ TD_GUARDED_BY(mu_);

  // Of the exchange under way.
  int64_t mine_ = 0;  // microseconds, like the others'
  std::vector<int64_t> all_;
  std::shared_ptr<collective::Work> exchange_;
};

}  // namespace tandem::trainer
