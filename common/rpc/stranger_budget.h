// Limits the calls and bytes that a server accepts from callers before the callers are trusted. All
// connections of one source address share one budget, so further connections do not increase it.
#pragma once

#include <cstddef>
#include <memory>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/token_bucket.h"

namespace tandem::rpc {

struct StrangerLimits {
  // Rate limit of HEADERS frames. A client sends at most three HEADERS frames before it is trusted:
  // a call of a session that the server does not know, OpenSession, and the first call of the new
  // session (RawCall). gRPC needs about 15 kB of memory per call. The limits thus allow about 1 MB
  // of memory at once and 5 MB in a minute.
  double calls_burst = 64, calls_per_second = 4;
  // Rate limit of bytes in frames, including the frame headers. The first three calls of an honest
  // client have 2 kB together. The client sends messages of megabytes only after it is trusted
  // (RawCall). gRPC buffers the bytes of a message until the message is complete.
  double bytes_burst = 1 << 20, bytes_per_second = 32 << 10;
};

// The budget of all strangers of one address. Thread-safe. The StrangerShares own the budget.
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

// The part of a StrangerBudget that one connection has used. The connection returns this part when
// its caller becomes trusted or the connection is closed. Thread-safe.
class StrangerShare {
 public:
  explicit StrangerShare(std::shared_ptr<StrangerBudget> budget) : budget_(std::move(budget)) {}
  ~StrangerShare() { Leave(); }
  StrangerShare(const StrangerShare&) = delete;
  StrangerShare& operator=(const StrangerShare&) = delete;

  // Take one call, or `count` bytes, from the budget. Return false if the budget is used up. After
  // Leave() the functions always return true.
  bool TakeCall(Time now);
  bool TakeBytes(size_t count, Time now);
  // Returns the part of the budget that this connection has used, from 0 to 1.
  double spent() const;
  // Returns the used part to the budget. Called when the caller of the connection becomes trusted,
  // and when the connection is closed.
  void Leave();

 private:
  const std::shared_ptr<StrangerBudget> budget_;
  // Used calls and bytes. The lock budget_->mu_ guards these fields.
  double calls_ = 0, bytes_ = 0;
  bool left_ = false;
};

}  // namespace tandem::rpc
