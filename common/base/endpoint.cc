#include "common/base/endpoint.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace tandem {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr char kBetween = '|';  // between the addresses of one server

StatusOr<Endpoint> ParsePath(std::string_view path) {
  const auto breaks_lists = [](unsigned char c) { return c < 0x20 || c == 0x7f || c == ','; };
  if (!path.starts_with('/') || path.back() == '/' ||
      std::any_of(path.begin(), path.end(), breaks_lists)) {
    return InvalidArgument(
        "address \"unix:%s\": expected unix:/ABSOLUTE/PATH without a comma "
        "[TD1009]",
        std::string(path));
  }
  if (path.size() > kUnixPathMax) {
    return InvalidArgument(
        "address \"unix:%s\": the path has %d bytes, but a Unix-domain socket allows at most %d "
        "bytes [TD6024]; hint: choose a directory with a shorter name",
        std::string(path), path.size(), kUnixPathMax);
  }
  return Endpoint{"", 0, std::string(path)};
}

}  // namespace

StatusOr<Endpoint> ParseEndpoint(std::string_view text) {
  const std::string whole(text);
  // The text is "unix:PATH" only if it has a slash. In "unix:7000", "unix" is a host name.
  if (text.starts_with(kUnix) && text.find('/') != text.npos) {
    return ParsePath(text.substr(kUnix.size()));
  }
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

StatusOr<Endpoint> ParseServerAddress(std::string_view text) {
  const std::string whole(text);
  if (text.find(kBetween) == text.npos) return ParseEndpoint(text);
  std::vector<Endpoint> all;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(kBetween, begin), text.size());
    TD_ASSIGN_OR_RETURN(Endpoint one, ParseEndpoint(text.substr(begin, end - begin)));
    in_addr address;
    if (one.port == 0 || inet_pton(AF_INET, one.host.c_str(), &address) != 1) {
      return InvalidArgument(
          "addresses \"%s\": a server with several addresses needs IPv4 addresses with ports "
          "[TD1009]; hint: set --listen_host of tandemrun to the IPv4 address of each host",
          whole);
    }
    all.push_back(std::move(one));
    begin = end + 1;
  }
  Endpoint first = all[0];
  first.others.assign(all.begin() + 1, all.end());
  return first;
}

std::string ToString(const Endpoint& endpoint) {
  if (endpoint.is_unix()) return std::string(kUnix) + endpoint.path;
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  std::string text =
      (v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
  for (const Endpoint& other : endpoint.others) text += kBetween + ToString(other);
  return text;
}

bool IsLoopback(const Endpoint& endpoint) {
  if (endpoint.is_unix()) return true;
  if (!std::ranges::all_of(endpoint.others, IsLoopback)) return false;
  if (endpoint.host == "localhost" || endpoint.host == "::1") return true;
  // Only a numeric address can be in 127.0.0.0/8: a name such as 127.0.0.1.example.org is no
  // loopback address.
  in_addr address;
  return inet_pton(AF_INET, endpoint.host.c_str(), &address) == 1 &&
         ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
}

std::string NumericLocalhost(const std::string& host) {
  return host == "localhost" ? "127.0.0.1" : host;
}

}  // namespace tandem
