// Rate, errors and duration of the calls that a server handles, with any transport.
#pragma once

#include <functional>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/status.h"
#include "pserver/service/access.h"

namespace tandem::pserver {

// Thread-safe.
class CallMetrics {
 public:
  using Finish = std::function<void(const Status&)>;

  // `metrics` must outlive this, and this must outlive the functions that Begin returns.
  explicit CallMetrics(Metrics& metrics);
  // Records a call that has arrived. Call the returned function once, with the reply. The duration
  // includes the wait for a worker, for other trainers and for the log.
  Finish Begin(PserverCall call);

 private:
  struct OneCall {
    Histogram& seconds;
    Counter& errors;
  };
  std::vector<OneCall> calls_;  // indexed by PserverCall
};

}  // namespace tandem::pserver
