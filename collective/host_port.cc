#include "collective/host_port.h"

namespace tandem {

StatusOr<HostPort> ParseHostPort(const std::string& text) {
  const auto bad = [&] {
    return InvalidArgument("\"%s\" is no address: expected HOST:PORT or [IPV6]:PORT", text);
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return bad();
  std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.size() > 63 || (!bracketed && host.find(':') != std::string::npos)) {
    return bad();
  }
  if (port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string::npos) {
    return bad();
  }
  const int number = std::stoi(port);
  if (number < 1 || number > 65535) return bad();
  return HostPort{host, static_cast<uint16_t>(number)};
}

std::string ToString(const HostPort& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return (v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

}  // namespace tandem
