// Limits the calls and bytes that a server accepts from callers before they prove an identity. All
// connections of one address share one budget, so further connections add nothing to it.
#pragma once

#include <cstddef>
#include <memory>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/token_bucket.h"

namespace tandem::rpc {

struct StrangerLimits {
  // HEADERS frames. A client needs at most three in sequence: a call of a session that the server
  // does not know, OpenSession, and the call that proves its session (RawCall).
  // gRPC holds about 15 kB per call, so these limits allow 1 MB at once and 5 MB in a stranger's
  // minute.
  double calls_burst = 64, calls_per_second = 4;
  // Bytes of frames, including their headers. The two calls have 2 kB together; messages of
  // megabytes follow on proven connections (RawCall). gRPC holds the bytes until a message is
  // complete.
  double bytes_burst = 1 << 20, bytes_per_second = 32 << 10;
};

// Thread-safe. Owned by its shares.
class StrangerBudget {
 public:
  explicit StrangerBudget(const StrangerLimits& limits)
      : limits_(limits),
        calls_(limits.calls_burst, limits.calls_per_second),
        bytes_(limits.bytes_burst, limits.bytes_per_second) {}

 private:
  friend class StrangerShare;

  const StrangerLimits limits_;
  Mutex mu_;
  TokenBucket calls_ TD_GUARDED_BY(mu_), bytes_ TD_GUARDED_BY(mu_);
};

// The part of the budget that one connection has used. It is returned when the connection is proven
// or closed, because the server then holds nothing for it. Thread-safe.
class StrangerShare {
 public:
  explicit StrangerShare(std::shared_ptr<StrangerBudget> budget) : budget_(std::move(budget)) {}
  ~StrangerShare() { Leave(); }
  StrangerShare(const StrangerShare&) = delete;
  StrangerShare& operator=(const StrangerShare&) = delete;

  // False: the budget is used up. Always true after Leave().
  bool TakeCall(Time now);
  bool TakeBytes(size_t count, Time now);
  // The used part of the whole budget, from 0 to 1.
  double spent() const;
  // Returns this share to the budget: the caller proved its identity, or the connection is closed.
  void Leave();

 private:
  const std::shared_ptr<StrangerBudget> budget_;
  // Guarded by budget_->mu_.
  double calls_ = 0, bytes_ = 0;
  bool left_ = false;
};

}  // namespace tandem::rpc
