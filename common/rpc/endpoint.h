// Addresses as people write them: "host:port", "127.0.0.1:0", "[::1]:7000".
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem {

struct Endpoint {
  std::string host;  // without brackets
  int port = 0;      // 0: the system chooses
};

// INVALID_ARGUMENT saying what is wrong.
StatusOr<Endpoint> ParseEndpoint(std::string_view text);
std::string ToString(const Endpoint& endpoint);  // brackets around IPv6 addresses
// 127.0.0.0/8, ::1 and localhost.
bool IsLoopback(const Endpoint& endpoint);

}  // namespace tandem
