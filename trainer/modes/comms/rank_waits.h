// Measures how long each rank of a job has waited for its peers. Ranks exchange these times
// periodically. A rank that waits much less than the other ranks is a straggler.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective/communicator.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tandem::trainer {

// Measures and exchanges waiting times. Thread-safe, except BeginStep, which only the step's thread
// may call. This object must outlive the communicators.
class RankWaits {
 public:
  static constexpr int64_t kStepsEach = 50;  // number of steps between two exchanges

  // Began and Ended mark the begin and the end of one communication of this rank. If several
  // communications overlap, the time from the first begin to the last end counts once.
  void Began() TD_EXCLUDES(mu_);
  void Ended() TD_EXCLUDES(mu_);

  // All ranks must call BeginStep before each step. If `step` is a multiple of kStepsEach, waits
  // for the end of the previous exchange and starts an exchange over `hosts`. Returns an error if
  // the previous exchange does not end within `patience`.
  Status BeginStep(int64_t step, collective::Communicator& hosts, Duration patience)
      TD_EXCLUDES(mu_);

  // Returns the waiting time of each rank in seconds, as of the last exchange; empty: no exchange
  // has ended.
  std::vector<double> Seconds() const TD_EXCLUDES(mu_);

 private:
  Status EndExchange(Duration patience) TD_EXCLUDES(mu_);

  mutable Mutex mu_;
  int under_way_ TD_GUARDED_BY(mu_) = 0;
  Time began_ TD_GUARDED_BY(mu_);  // when the first of the communications in flight began
  Duration waited_ TD_GUARDED_BY(mu_) = Duration::zero();
  std::vector<double> told_ TD_GUARDED_BY(mu_);

  // The state of the exchange in flight.
  int64_t mine_ = 0;  // waiting time of this rank in us; all_ has the times of all ranks
  std::vector<int64_t> all_;
  std::shared_ptr<collective::Work> exchange_;
};

}  // namespace tandem::trainer
