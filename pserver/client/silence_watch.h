// Measures for how long servers have not replied to a client.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tandem::ps {

// Measures, for each server, the time from Start to the next reply. Thread-safe.
class SilenceWatch {
 public:
  using OnSilent = std::function<void(int server, Duration silent)>;
  // `on_silent` is called if a call ends without a reply and the server has not replied for
  // `limit`. `on_silent` may be null.
  SilenceWatch(Duration limit, OnSilent on_silent);

  // Begins the measurement for a server. Has no effect if a measurement for this server is in
  // progress.
  void Start(size_t server, Time now);
  void EndAll();
  // Records that a call to the server ended with `status`. DEADLINE_EXCEEDED is no reply, so the
  // measurement continues. Any other status ends the measurement: the server replied, or it ended
  // and its connections were closed.
  void OnEnd(size_t server, const Status& status, Time now);

 private:
  const Duration limit_;
  const OnSilent on_silent_;
  Mutex mu_;
  // By server: time at which the measurement began.
  std::map<size_t, Time> since_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
