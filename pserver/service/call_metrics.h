// Rate, errors and duration of the calls that a server answers, whichever road they come by.
#pragma once

#include <functional>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/status.h"
#include "pserver/service/access.h"

namespace tandem {

// Thread-safe.
class CallMetrics {
 public:
  using Finish = std::function<void(const Status&)>;

  // `metrics` must outlive this, and this what Begin gives out.
  explicit CallMetrics(Metrics& metrics);
  // A call has come; what is returned is to be called once, when it is answered. Its duration is
  // that in between: waiting for a worker, for other trainers and for the log is part of it.
  Finish Begin(PserverCall call);

 private:
  struct OneCall {
    Histogram& seconds;
    Counter& errors;
  };
  std::vector<OneCall> calls_;  // by PserverCall
};

}  // namespace tandem
