// Measures for how long servers have not replied.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tandem::ps {

// A measurement begins with Start and ends with a reply. Thread-safe.
class SilenceWatch {
 public:
  using OnSilent = std::function<void(int server, Duration silent)>;
  // Calls `on_silent` (may be empty) for a server that has not replied for `limit`.
  SilenceWatch(Duration limit, OnSilent on_silent);

  // Begins to measure. Does nothing if a measurement of this server is in progress.
  void Start(size_t server, Time now);
  void EndAll();
  // A call to the server ended. DEADLINE_EXCEEDED is no reply. Another error is: the connections to
  // a stopped server end.
  void OnEnd(size_t server, const Status& status, Time now);

 private:
  const Duration limit_;
  const OnSilent on_silent_;
  Mutex mu_;
  std::map<size_t, Time> since_ TD_GUARDED_BY(mu_);  // by server: begin of the measurement
};

}  // namespace tandem::ps
