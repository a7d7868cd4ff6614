// Rate, errors and duration of the calls that a server handles, for all transports.
#pragma once

#include <functional>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/status.h"
#include "pserver/service/access.h"

namespace tandem::pserver {

// Records metrics of calls. Thread-safe.
class CallMetrics {
 public:
  using Finish = std::function<void(const Status&)>;

  // `metrics` must outlive this object. This object must outlive the functions that Begin returns.
  explicit CallMetrics(Metrics& metrics);
  // Records that a call has arrived. The caller of Begin calls the returned function once, with the
  // status of the reply. The recorded duration includes the waits for a worker, for other trainers
  // and for the log.
  Finish Begin(PserverCall call);

 private:
  struct OneCall {
    Histogram& seconds;
    Counter& errors;
  };
  std::vector<OneCall> calls_;  // metrics by PserverCall
};

}  // namespace tandem::pserver
