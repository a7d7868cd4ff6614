#include "deploy/launch/options/endpoints.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <map>
#include <memory>
#include <set>

#include "absl/strings/str_split.h"
#include "common/base/endpoint.h"
#include "common/base/require.h"
#include "common/os/ports.h"

namespace tandem::deploy {
namespace {

std::set<std::string> InterfaceAddresses() {
  std::set<std::string> addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  for (const ifaddrs* a = list; a != nullptr; a = a->ifa_next) {
    if (a->ifa_addr == nullptr || a->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN];
    const auto* in = reinterpret_cast<const sockaddr_in*>(a->ifa_addr);
    if (inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text)) != nullptr) addresses.insert(text);
  }
  return addresses;
}

Status CheckDistinct(const std::string& flag, const std::vector<ProcessEndpoint>& endpoints) {
  std::set<std::string> seen;
  for (const ProcessEndpoint& e : endpoints) {
    if (!seen.insert(e.Text()).second) {
      return InvalidArgument("--%s names %s twice [TD1102]; hint: give each process its own port",
                             flag, e.Text());
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::vector<ProcessEndpoint>> ParseEndpoints(const std::string& flag,
                                                      const std::string& list) {
  std::vector<ProcessEndpoint> endpoints;
  for (const auto piece : absl::StrSplit(list, ',')) {
    const std::string entry(piece);
    if (flag == "servers" && entry.starts_with("unix:/")) {
      TD_ASSIGN_OR_RETURN(Endpoint parsed, ParseEndpoint(entry));
      endpoints.push_back({"", 0, true, std::move(parsed.path)});
      continue;
    }
    const size_t colon = entry.rfind(':');
    ProcessEndpoint e;
    e.host = entry.substr(0, colon);
    if (colon != std::string::npos) {
      const char* end = entry.data() + entry.size();
      const auto [rest, error] = std::from_chars(entry.data() + colon + 1, end, e.port);
      if (error != std::errc() || rest != end || e.port < 1 || e.port > 65535) e.host.clear();
    }
    if (e.host.empty() || e.host.find_first_of(" \t/:") != std::string::npos) {
      return InvalidArgument(
          "--%s: expected HOST:PORT,HOST:PORT,..., got \"%s\" in \"%s\" [TD1009]", flag, entry,
          list);
    }
    e.local = IsLocalHost(e.host);
    endpoints.push_back(e);
  }
  return endpoints;
}

std::string HostName() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

bool IsLocalHost(const std::string& host) {
  if (host == "localhost" || host == "0.0.0.0" || host == HostName()) return true;
  return host.rfind("127.", 0) == 0 || InterfaceAddresses().count(host) > 0;
}

Status AssignPorts(const std::string& flag, int start_port,
                   std::vector<ProcessEndpoint>& endpoints) {
  TD_REQUIRE(start_port >= 0);
  bool all_local = true;
  for (const ProcessEndpoint& e : endpoints) all_local = all_local && e.local;
  std::map<std::string, int> next;  // for each host, the number of ports assigned so far
  for (ProcessEndpoint& e : endpoints) {
    if (e.is_unix()) continue;
    if (e.port != 0) {
      if (!e.local) continue;
      const auto bound = BindPort(e.host, e.port);
      if (!bound.ok()) {
        return Annotate(bound.status(), "--" + flag + "=" + e.Text());
      }
    } else if (!all_local || start_port != 0) {
      // 6170 is the default first port of fleetrun.
      e.port = (start_port != 0 ? start_port : 6170) + next[e.host]++;
      if (e.port > 65535)
        return InvalidArgument(
            "--start_port: there are too few ports for the processes on %s [TD1004]; hint: choose "
            "a smaller port",
            e.host);
    }
  }
  int open = 0;
  for (const ProcessEndpoint& e : endpoints) open += e.port == 0 && !e.is_unix() ? 1 : 0;
  TD_ASSIGN_OR_RETURN(int port, FreePorts("0.0.0.0", open));
  for (ProcessEndpoint& e : endpoints) {
    if (e.port == 0 && !e.is_unix()) e.port = port++;
  }
  return CheckDistinct(flag, endpoints);
}

std::string JoinEndpoints(const std::vector<ProcessEndpoint>& endpoints) {
  std::string text;
  for (const ProcessEndpoint& e : endpoints) text += (text.empty() ? "" : ",") + e.Text();
  return text;
}

}  // namespace tandem::deploy
