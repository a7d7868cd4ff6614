#include "common/rpc/endpoint.h"

#include <arpa/inet.h>

#include <charconv>

namespace tandem {

StatusOr<Endpoint> ParseEndpoint(std::string_view text) {
  const std::string whole(text);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return InvalidArgument("address \"%s\": expected HOST:PORT [TD1009]", whole);
  }
  std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  const bool brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (host.empty() || (!brackets && host.find(':') != std::string_view::npos)) {
    return InvalidArgument("address \"%s\": expected HOST:PORT, IPv6 as [ADDRESS]:PORT [TD1009]",
                           whole);
  }
  Endpoint endpoint{std::string(host), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc() || end != port.data() + port.size() || endpoint.port < 0 ||
      endpoint.port > 65535) {
    return InvalidArgument("address \"%s\": the port must be a number from 0 to 65535 [TD1009]",
                           whole);
  }
  return endpoint;
}

std::string ToString(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return (v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

bool IsLoopback(const Endpoint& endpoint) {
  if (endpoint.host == "localhost" || endpoint.host == "::1") return true;
  // A name such as 127.0.0.1.example.org is none of ours.
  in_addr address;
  return inet_pton(AF_INET, endpoint.host.c_str(), &address) == 1 &&
         ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
}

}  // namespace tandem
