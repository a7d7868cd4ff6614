// The parts of the status page that are about standbys.
#pragma once

#include <string>
#include <vector>

#include "common/http/status_page.h"
#include "pserver/pserver.h"
#include "pserver/replication/log_follower.h"
#include "pserver/replication/log_source.h"

namespace tandem::pserver {

// Adds the role, the term and the standbys of a primary to its page.
void AddStandbys(const LogTerm& term, const std::vector<StandbyInfo>& standbys,
                 http::StatusDocument* document);
// Returns the page of a standby. The page says that the standby is ready if it has a state and its
// newest request succeeded. `options`: those of the standby.
http::StatusDocument StatusOfStandby(const PserverOptions& options,
                                     const LogFollower::Progress& progress);

// Returns the page of a replica. The page says that the replica is ready if it listens and its
// newest request succeeded.
http::StatusDocument StatusOfReplica(const PserverOptions& options,
                                     const LogFollower::Progress& progress, bool listens);

}  // namespace tandem::pserver
