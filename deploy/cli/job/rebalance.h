// Moves rows between the pservers of a running job, for `tandem drain` and `tandem scale`
// (rebalance.cc).
#pragma once

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "deploy/cli/job/job_access.h"
#include "deploy/launch/options/flag_table.h"

namespace tandem::deploy {

struct Rebalancing {
  std::vector<std::string> added;  // addresses of servers that join the job, in their order
  int drained = -1;                // number of the server to drain; -1: no server is drained
  bool as_json = false, dry = false;
  bool silent = false;          // true: print nothing
  Time deadline = Time::max();  // no batch of buckets begins to move after this time
};

// Moves rows and slices, so that the servers have about equally many and the drained one has none.
// DEADLINE_EXCEEDED: the deadline has passed; completed moves stay in effect.
Status Rebalance(const JobAccess& access, const Rebalancing& what);

// Implements `tandem drain --pserver=N`: moves all rows of server N to the other servers.
Status DrainPserver(const ParsedArgs& args);

}  // namespace tandem::deploy
