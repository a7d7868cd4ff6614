// A log of the calls of a trainer to its pservers: the number of calls, their bytes, and each
// single call for the profile (enable_rpc_profiler).
#pragma once

#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/client.h"
#include "trainer/ps/ps_counts.h"

namespace tandem::trainer {

// Counts calls, and also keeps them if the job wants a profile. Thread-safe.
class RpcLog {
 public:
  explicit RpcLog(bool keep) : keep_(keep) {}
  // Counts the call. If `keep` is set, also keeps the call, up to kCallsMax calls.
  void Add(const ps::PsCall& call);
  // Sets the number of calls and their sent and received bytes in `counts`.
  void AddBytes(PsCounts* counts) const;
  // Returns the kept calls that began in [begin, end), in the order in which they ended.
  std::vector<ps::PsCall> Between(Time begin, Time end) const;

 private:
  static constexpr size_t kCallsMax = size_t{1} << 20;
  const bool keep_;
  mutable Mutex mu_;
  size_t made_ TD_GUARDED_BY(mu_) = 0;
  size_t sent_ TD_GUARDED_BY(mu_) = 0, received_ TD_GUARDED_BY(mu_) = 0;
  std::vector<ps::PsCall> calls_ TD_GUARDED_BY(mu_);
};

// Returns a table with one row per method and server: number of calls, times in ms, bytes per call.
// "": there are no calls.
std::string RpcTable(const std::vector<ps::PsCall>& calls);

}  // namespace tandem::trainer
