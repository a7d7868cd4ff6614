// The hosts and addresses of pservers and of their standbys, which are their members.
#pragma once

#include <string>
#include <vector>

#include "deploy/launch/hosts/server_groups.h"
#include "deploy/launch/options/launch_options.h"

namespace tandem::deploy {

// Returns the address of member `member` of pserver `index`. REQUIRES: the pserver has this member.
const ProcessEndpoint& MemberEndpoint(const PserverOptions& pservers, int index, int member);
// Returns the addresses of all pservers, separated by commas. The addresses of the members of one
// pserver are separated by '|' (common/base/endpoint.h).
std::string ServerAddresses(const PserverOptions& pservers);
// Returns the members of each pserver; empty: the pservers have no standbys.
std::vector<ServerPlace> Members(const PserverOptions& pservers);

}  // namespace tandem::deploy
