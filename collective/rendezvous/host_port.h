// Network addresses as users write them.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem::collective {

// A host and a port. Examples of the text form: "127.0.0.1:80", "[::1]:80".
struct HostPort {
  std::string host;
  uint16_t port = 0;
};
StatusOr<HostPort> ParseHostPort(const std::string& text);
std::string ToString(const HostPort& endpoint);

}  // namespace tandem::collective
