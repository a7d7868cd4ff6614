// Measures how long servers have not replied to a client.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tandem::ps {

// Measures the time without a reply for each server, from Start to the next reply. Thread-safe.
class SilenceWatch {
 public:
  using OnSilent = std::function<void(int server, Duration silent)>;
  // `on_silent` is called for a server that has not replied for `limit`. `on_silent` may be empty.
  SilenceWatch(Duration limit, OnSilent on_silent);

  // Begins to measure the time without a reply. Does nothing if a measurement of this server is in
  // progress.
  void Start(size_t server, Time now);
  void EndAll();
  // Records that a call to the server ended. DEADLINE_EXCEEDED is no reply, so the measurement
  // continues. Any other status ends the measurement: it is a reply, or the server has ended and
  // closed its connections.
  void OnEnd(size_t server, const Status& status, Time now);

 private:
  const Duration limit_;
  const OnSilent on_silent_;
  Mutex mu_;
  // By server: time at which the measurement began.
  std::map<size_t, Time> since_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
