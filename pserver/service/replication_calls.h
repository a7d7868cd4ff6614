// Handlers of the calls of proto/pserver.proto for standby servers. A handler turns a request
// message into a reply message, independently of the transport. The handlers block.
#pragma once

#include "common/base/status.h"
#include "pserver/replication/log_follower.h"

namespace tandem {
class FetchCheckpointReply;
class FetchCheckpointRequest;
class FetchLogReply;
class FetchLogRequest;
class StatusReply;
}  // namespace tandem

namespace tandem::pserver {

class LogSource;

// `source` null: this server has no standbys (FAILED_PRECONDITION).
// `arrived`: time at which the request arrived.
Status FetchLogEntries(const FetchLogRequest& request, Time arrived, LogSource* source,
                       FetchLogReply* reply);
Status FetchCheckpointPart(const FetchCheckpointRequest& request, LogSource* source,
                           FetchCheckpointReply* reply);
// Fills the fields of `reply` about the standbys of `source`. `member`: number of this server.
void FillReplication(const LogSource& source, int member, StatusReply* reply);
// Fills the fields of `reply` about a replica.
void FillReplica(const LogFollower::Progress& progress, StatusReply* reply);

}  // namespace tandem::pserver
