// The newest status document of a daemon, for readers that must not wait for the daemon's locks.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/http/status_page.h"

namespace tandem::http {

// Thread-safe.
class LatestDocument {
 public:
  static constexpr Duration kPatience = std::chrono::milliseconds(50);
  static constexpr Duration kAgeMax = std::chrono::seconds(60);

  // `make` may wait for long: only a thread of this class calls it.
  explicit LatestDocument(std::function<StatusDocument()> make);
  ~LatestDocument();  // waits for the call of `make` in progress

  // Returns the current document. While a call of `make` takes longer than kPatience, it returns
  // the previous document, with the document's age as one of the facts. If there is none, or none
  // younger than kAgeMax, the result is not ready.
  StatusDocument Get();

 private:
  void Loop();
  StatusDocument Aged(Time now) const TD_REQUIRES(mu_);

  const std::function<StatusDocument()> make_;
  Mutex mu_;
  CondVar cv_;
  bool stop_ TD_GUARDED_BY(mu_) = false;
  bool wanted_ TD_GUARDED_BY(mu_) = false;
  uint64_t begun_ TD_GUARDED_BY(mu_) = 0, made_ TD_GUARDED_BY(mu_) = 0;  // calls of `make`
  Time begin_ TD_GUARDED_BY(mu_);                                        // of the last call
  StatusDocument latest_ TD_GUARDED_BY(mu_);
  Time latest_begin_ TD_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace tandem::http
