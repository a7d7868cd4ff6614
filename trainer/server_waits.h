// How long each trainer of a job has waited for the others, which a pserver knows and is asked now
// and then: who hardly waits is who is waited for.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pserver/client/client.h"

namespace tandem {

// Seconds is thread-safe, BeginStep is the step's thread's.
class ServerWaits {
 public:
  static constexpr int64_t kStepsEach = 50;  // between two questions

  ServerWaits();

  // Before each step: every kStepsEach-th asks, unless an answer is under way. Waits for nothing.
  void BeginStep(int64_t step, PsClient& client);

  // By trainer, as of the last answer; empty: there was none.
  std::vector<double> Seconds() const;

 private:
  struct Told;
  const std::shared_ptr<Told> told_;  // an answer may come when this is gone
};

}  // namespace tandem
