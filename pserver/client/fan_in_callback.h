// Combines the results of several calls into one result for a callback: the first error or, without
// an error, the lowest version.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/require.h"
#include "common/base/status.h"
#include "pserver/client/client.h"

namespace tandem::ps {

// Thread-safe. The callback runs on the thread of the last call of Arrive.
class FanInCallback {
 public:
  // `calls`: number of calls of Arrive that must come before the callback runs. REQUIRES: calls > 0
  FanInCallback(size_t calls, PsClient::DoneVersion done) : left_(calls), done_(std::move(done)) {
    TD_REQUIRE(calls > 0);
  }

  void Arrive(StatusOr<uint64_t> version) {
    StatusOr<uint64_t> all;
    {
      MutexLock lock(mu_);
      TD_REQUIRE(left_ > 0);
      if (!version.ok()) {
        if (status_.ok()) status_ = version.status();
      } else {
        version_ = std::min(version_, *version);
      }
      if (--left_ > 0) return;
      all = status_.ok() ? StatusOr<uint64_t>(version_) : status_;
    }
    done_(std::move(all));
  }

 private:
  Mutex mu_;
  size_t left_ TD_GUARDED_BY(mu_);
  Status status_ TD_GUARDED_BY(mu_);
  uint64_t version_ TD_GUARDED_BY(mu_) = UINT64_MAX;
  const PsClient::DoneVersion done_;
};

}  // namespace tandem::ps
