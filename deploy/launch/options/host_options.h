// The options of a job on several hosts, whose tandemruns find each other at a rendezvous.
#pragma once

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "deploy/launch/options/endpoints.h"
#include "deploy/launch/options/flag_table.h"

namespace tandem::deploy {

inline constexpr int kHostsMax = 1024;  // maximum number of hosts of a job

struct HostOptions {
  int count = 1;              // number of hosts, with one tandemrun on each; 1: this host only
  int least = 1;              // minimum number of hosts with which an elastic job continues
  std::string rendezvous;     // URL where the tandemruns meet
  bool names_leader = false;  // true: `rendezvous` is the address of the leading host (tcp://)
  std::string listen_host;    // address of this host for the others; empty: it is found out
  // Time without a message of a host's tandemrun after which the host is lost.
  Duration timeout = std::chrono::seconds(5);

  bool several() const { return count > 1; }
};

// Returns the flags of these options.
std::vector<FlagSpec> HostFlags();

// Returns whether --hosts is a number of hosts (N or MIN:MAX) and not a list of names.
bool HostsAreCounted(const ParsedArgs& args);

// Makes the options from the flags. INVALID_ARGUMENT: a flag is wrong, or contradicts another one.
StatusOr<HostOptions> MakeHostOptions(const ParsedArgs& args);

// Sets host_number of `processes` so that each host gets an equal share, in blocks.
void Spread(int hosts, std::vector<ProcessEndpoint>& processes);
// Returns the standbys of the first pserver, then those of the next one. Standby m of a pserver is
// on the m-th host after the host of the pserver. INVALID_ARGUMENT: there are too few hosts,
// because the members of a pserver never share a host. REQUIRES: there are several hosts and
// standbys.
StatusOr<std::vector<ProcessEndpoint>> SpreadStandbys(int hosts, int standbys,
                                                      const std::vector<ProcessEndpoint>& pservers);

}  // namespace tandem::deploy
