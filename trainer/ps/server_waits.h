// How long each trainer of a job has waited for the others. A pserver knows these times, and the
// trainer requests them periodically. The trainer with the shortest wait is the straggler.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/client.h"

namespace tandem::trainer {

// Seconds is thread-safe; only the step's thread may call BeginStep.
class ServerWaits {
 public:
  static constexpr int64_t kStepsEach = 50;  // steps between two requests

  // Call it before each step. Every kStepsEach-th call sends a request, unless one is in progress.
  // Does not block. `client` must be destroyed before this object; its destructor waits for the
  // reply.
  void BeginStep(int64_t step, ps::PsClient& client);

  // Seconds by trainer, from the last reply; empty: no reply yet.
  std::vector<double> Seconds() const;

 private:
  mutable Mutex mu_;
  bool asking_ TD_GUARDED_BY(mu_) = false;
  std::vector<double> seconds_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::trainer
