// What gRPC says, in this program's log. gRPC writes what callers sent, unescaped and without a
// limit, to standard error.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace tandem::rpc {

// Escapes control characters and bytes that are not ASCII, and cuts to 256 bytes.
std::string OneLine(std::string_view text);

// One line a second for each source file. Thread-safe.
class LogPace {
 public:
  // The number of lines that were left out before this one; nullopt: this one is left out.
  std::optional<uint64_t> Admit(const std::string& file, Time now);

 private:
  struct Of {
    Time last;
    uint64_t left_out = 0;
  };
  Mutex mu_;
  std::map<std::string, Of> files_ TD_GUARDED_BY(mu_);
};

// Call once, early in main.
void InstallGrpcLog();

}  // namespace tandem::rpc
