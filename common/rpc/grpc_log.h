// Redirects gRPC's log lines to this program's log. gRPC itself would write bytes from callers to
// standard error, unescaped and without a limit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tandem::rpc {

// Returns `text` with control and non-ASCII characters escaped, truncated to 256 bytes.
std::string OneLine(std::string_view text);

// Limits log lines to one per second for each source file. Thread-safe.
class LogPace {
 public:
  // Returns the number of lines dropped before this line. nullopt: this line must be dropped.
  std::optional<uint64_t> Admit(const std::string& file, Time now);

 private:
  struct Of {
    Time last;
    uint64_t left_out = 0;
  };
  Mutex mu_;
  std::map<std::string, Of> files_ TD_GUARDED_BY(mu_);
};

// Installs the redirection of gRPC's log. Call it once, early in main.
void InstallGrpcLog();

}  // namespace tandem::rpc
