// An address as people write it.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem {

// "127.0.0.1:80", "[::1]:80" -> host and port. INVALID_ARGUMENT with what was expected.
struct HostPort {
  std::string host;
  uint16_t port = 0;
};
StatusOr<HostPort> ParseHostPort(const std::string& text);
std::string ToString(const HostPort& endpoint);

}  // namespace tandem
