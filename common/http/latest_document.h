// Caches the newest status document of a daemon, so that readers need not wait for the daemon's
// locks.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/http/status_page.h"

namespace tandem::http {

// The newest document that `make` returned. Thread-safe.
class LatestDocument {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(50);
  static constexpr Duration kAgeMax = std::chrono::seconds(60);

  // Creates the thread that calls `make`. `make` may block, because no other thread calls `make`.
  explicit LatestDocument(std::function<StatusDocument()> make);
  ~LatestDocument();  // waits until a running call of `make` has ended

  // Requests a new document from `make` and returns the document. If the call of `make` takes
  // longer than kPatience, returns the previous document and adds the document's age to its facts.
  // The field `ready` of the result is false if there is no document yet, or if the previous
  // document is older than kAgeMax.
  StatusDocument Get();

 private:
  void Loop();
  StatusDocument Aged(Time now) const TD_REQUIRES(mu_);

  const std::function<StatusDocument()> make_;
  Mutex mu_;
  CondVar cv_;
  bool stop_ TD_GUARDED_BY(mu_) = false;
  bool wanted_ TD_GUARDED_BY(mu_) = false;
  // Number of calls of `make` that have begun (begun_), and that have ended (made_).
  uint64_t begun_ TD_GUARDED_BY(mu_) = 0, made_ TD_GUARDED_BY(mu_) = 0;
  Time begin_ TD_GUARDED_BY(mu_);  // start time of the last call of `make`
  StatusDocument latest_ TD_GUARDED_BY(mu_);
  Time latest_begin_ TD_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace tandem::http
