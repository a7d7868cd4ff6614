// The times that each trainer of a job has waited for the other trainers. The pservers measure
// these times, and a trainer requests the times periodically. The trainer with the shortest wait is
// the straggler.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/client.h"

namespace tandem::trainer {

// Requests the waiting times. Seconds is thread-safe; only the step's thread may call BeginStep.
class ServerWaits {
 public:
  // Number of steps between two requests for the waiting times.
  static constexpr int64_t kStepsEach = 50;

  // Sends a request if `step` is a multiple of kStepsEach and no request is in progress. Does not
  // block. The trainer must call BeginStep before each step. `client` must be destroyed before this
  // object; the destructor of `client` waits for the reply.
  void BeginStep(int64_t step, ps::PsClient& client);

  // Returns the waiting time of each trainer in seconds, from the last reply. Empty: no reply has
  // arrived.
  std::vector<double> Seconds() const;

 private:
  mutable Mutex mu_;
  bool asking_ TD_GUARDED_BY(mu_) = false;
  std::vector<double> seconds_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::trainer
