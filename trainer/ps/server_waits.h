// How long each trainer of a job has waited for the others, which a pserver knows and is asked now
// and then: who hardly waits is who is waited for.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/client.h"

namespace tandem {

// Seconds is thread-safe, BeginStep is the step's thread's.
class ServerWaits {
 public:
  static constexpr int64_t kStepsEach = 50;  // between two questions

  // Before each step: every kStepsEach-th asks, unless an answer is under way. Waits for nothing.
  // `client` must be gone before this is: its destructor waits for the answer.
  void BeginStep(int64_t step, PsClient& client);

  // By trainer, as of the last answer; empty: there was none.
  std::vector<double> Seconds() const;

 private:
  mutable Mutex mu_;
  bool asking_ TD_GUARDED_BY(mu_) = false;
  std::vector<double> seconds_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem
