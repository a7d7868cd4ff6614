#include "collective/rendezvous/host_port.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"

namespace tandem::collective {
namespace {

// Returns whether `host` has the form of a host name or IPv4 address. If `v6` is true, returns
// whether `host` has the form of an IPv6 address, with an optional zone after '%'.
bool IsHost(std::string_view host, bool v6) {
  const std::string_view marks = v6 ? ":.%_-" : "._-";
  if (v6 && host.find(':') == std::string_view::npos) return false;
  return !host.empty() && host.size() <= 63 && std::ranges::all_of(host, [&](unsigned char c) {
    return absl::ascii_isalnum(c) || marks.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

}  // namespace

StatusOr<HostPort> ParseHostPort(const std::string& text) {
  const auto bad = [&] {
    return InvalidArgument("\"%s\" is not an address, expected HOST:PORT or [IPV6]:PORT [TD1009]",
                           text);
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return bad();
  std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!IsHost(host, bracketed)) return bad();
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

}  // namespace tandem::collective
