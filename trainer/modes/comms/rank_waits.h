// Measures how long each rank of a job has waited for its peers. Ranks exchange these times
// periodically. A rank that hardly waits is a straggler.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective/communicator.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tandem::trainer {

// Thread-safe, except BeginStep, which only the step's thread may call. Must outlive the
// communicators.
class RankWaits {
 public:
  static constexpr int64_t kStepsEach = 50;  // between two exchanges

  // Mark the begin and the end of one communication of this rank. Time with several communications
  // in flight counts once: from the first begin to the last end.
  void Began() TD_EXCLUDES(mu_);
  void Ended() TD_EXCLUDES(mu_);

  // Call before each step on all ranks. Every kStepsEach-th call starts an exchange over `hosts`.
  // The previous exchange must end first, within `patience`; otherwise it fails with the exchange's
  // deadline error.
  Status BeginStep(int64_t step, collective::Communicator& hosts, Duration patience)
      TD_EXCLUDES(mu_);

  // Seconds by rank as of the last exchange; empty: no exchange yet.
  std::vector<double> Seconds() const TD_EXCLUDES(mu_);

 private:
  Status EndExchange(Duration patience) TD_EXCLUDES(mu_);

  mutable Mutex mu_;
  int under_way_ TD_GUARDED_BY(mu_) = 0;
  Time began_ TD_GUARDED_BY(mu_);  // begin of the first communication in flight
  Duration waited_ TD_GUARDED_BY(mu_) = Duration::zero();
  std::vector<double> told_ TD_GUARDED_BY(mu_);

  // State of the exchange in flight.
  int64_t mine_ = 0;  // microseconds, like those of the peers
  std::vector<int64_t> all_;
  std::shared_ptr<collective::Work> exchange_;
};

}  // namespace tandem::trainer
