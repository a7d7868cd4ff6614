#include "deploy/launch/pserver_members.h"

#include "absl/strings/str_join.h"
#include "common/base/require.h"

namespace tandem::deploy {

const ProcessEndpoint& MemberEndpoint(const PserverOptions& pservers, int index, int member) {
  TD_REQUIRE(index >= 0 && member >= 0 && member <= pservers.standbys);
  const auto server = static_cast<size_t>(index);
  if (member == 0 || pservers.standby_endpoints.empty()) return pservers.endpoints[server];
  const auto standbys = static_cast<size_t>(pservers.standbys);
  return pservers.standby_endpoints[server * standbys + static_cast<size_t>(member - 1)];
}

std::string ServerAddresses(const PserverOptions& pservers) {
  std::vector<std::string> servers;
  const bool spread = !pservers.standby_endpoints.empty();
  for (size_t i = 0; i < pservers.endpoints.size(); ++i) {
    std::vector<std::string> members;
    for (int m = 0; m <= (spread ? pservers.standbys : 0); ++m) {
      members.push_back(MemberEndpoint(pservers, static_cast<int>(i), m).Text());
    }
    servers.push_back(absl::StrJoin(members, "|"));
  }
  return absl::StrJoin(servers, ",");
}

std::vector<ServerPlace> Members(const PserverOptions& pservers) {
  std::vector<ServerPlace> places;
  if (pservers.standbys == 0) return places;
  for (size_t i = 0; i < pservers.endpoints.size(); ++i) {
    ServerPlace place;
    for (int m = 0; m <= pservers.standbys; ++m) {
      const ProcessEndpoint& e = MemberEndpoint(pservers, static_cast<int>(i), m);
      place.hosts.push_back(e.host_number);
      place.addresses.push_back(e.Text());
    }
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace tandem::deploy
