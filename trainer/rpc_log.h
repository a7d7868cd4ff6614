// The calls that a trainer made to its pservers, for its profile (enable_rpc_profiler).
#pragma once

#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/client.h"

namespace tandem {

// Thread-safe.
class RpcLog {
 public:
  // Forgotten when there are calls_max already.
  void Add(const PsCall& call);
  // Those that began in [begin, end), in the order in which they ended.
  std::vector<PsCall> Between(Time begin, Time end) const;

 private:
  static constexpr size_t kCallsMax = size_t{1} << 20;
  mutable Mutex mu_;
  std::vector<PsCall> calls_ TD_GUARDED_BY(mu_);
};

// A row for each method and server: calls, times in ms, bytes a call. "" without calls.
std::string RpcTable(const std::vector<PsCall>& calls);

}  // namespace tandem
