// The calls and bytes that a server takes of callers before they prove who they are. One budget is
// for all connections of one address, so that another connection brings no further share.
#pragma once

#include <cstddef>
#include <memory>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/token_bucket.h"

namespace tandem::rpc {

struct StrangerLimits {
  // HEADERS frames. A client needs three at most, one after another: a call of a session that the
  // server does not know, OpenSession, and the call that proves its session (RawCall). gRPC holds
  // about 15 kB for a call, so these take 1 MB at once and 5 MB in the minute of a stranger.
  double calls_burst = 64, calls_per_second = 4;
  // Frames with their headers. The two calls have 2 kB together; messages of megabytes follow on
  // connections that were proven (RawCall). gRPC holds bytes until a message is whole.
  double bytes_burst = 1 << 20, bytes_per_second = 32 << 10;
};

// Thread-safe. Held by the shares.
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

// The part of the budget that one connection took. It is given back when the connection is proven
// or gone: the server then holds nothing for it. Thread-safe.
class StrangerShare {
 public:
  explicit StrangerShare(std::shared_ptr<StrangerBudget> budget) : budget_(std::move(budget)) {}
  ~StrangerShare() { Leave(); }
  StrangerShare(const StrangerShare&) = delete;
  StrangerShare& operator=(const StrangerShare&) = delete;

  // False when the budget is used up. True without a limit after Leave().
  bool TakeCall(Time now);
  bool TakeBytes(size_t count, Time now);
  // The part of the whole budget that was taken, from 0 to 1.
  double spent() const;
  // The caller proved who it is, or is gone.
  void Leave();

 private:
  const std::shared_ptr<StrangerBudget> budget_;
  // Guarded by budget_->mu_.
  double calls_ = 0, bytes_ = 0;
  bool left_ = false;
};

}  // namespace tandem::rpc
