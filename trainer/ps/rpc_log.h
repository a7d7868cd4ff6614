// The calls of a trainer to its pservers: their total bytes, and each call for the profile
// (enable_rpc_profiler).
#pragma once

#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/client.h"
#include "trainer/ps/ps_counts.h"

namespace tandem::trainer {

// Thread-safe.
class RpcLog {
 public:
  explicit RpcLog(bool keep) : keep_(keep) {}
  // Keeps the call if `keep` is set, up to kCallsMax calls.
  void Add(const ps::PsCall& call);
  // Sets the number of calls and their bytes.
  void AddBytes(PsCounts* counts) const;
  // The calls that began in [begin, end), in the order in which they ended.
  std::vector<ps::PsCall> Between(Time begin, Time end) const;

 private:
  static constexpr size_t kCallsMax = size_t{1} << 20;
  const bool keep_;
  mutable Mutex mu_;
  size_t made_ TD_GUARDED_BY(mu_) = 0;
  size_t sent_ TD_GUARDED_BY(mu_) = 0, received_ TD_GUARDED_BY(mu_) = 0;
  std::vector<ps::PsCall> calls_ TD_GUARDED_BY(mu_);
};

// A table with a row per method and server: calls, times in ms, bytes per call. "": no calls.
std::string RpcTable(const std::vector<ps::PsCall>& calls);

}  // namespace tandem::trainer
