// Handler of FetchChanges of proto/pserver.proto. It turns a request message into a reply message,
// independently of the transport.
#pragma once

#include "common/base/status.h"

namespace tandem {
class FetchChangesReply;
class FetchChangesRequest;
}  // namespace tandem

namespace tandem::pserver {

class Shard;
class StateHistory;

// Fills `reply` with the changes of a table. The caller sends the reply after Shard::WhenLogged.
// `history` null: this server has no log (FAILED_PRECONDITION).
Status FetchTableChanges(const FetchChangesRequest& request, const StateHistory* history,
                         Shard& shard, FetchChangesReply* reply);

// Returns whether the reader needs the reply now, so that the server does not hold its request
// (FetchChangesRequest.wait_ms).
bool HasChanges(const FetchChangesRequest& request, const FetchChangesReply& reply);

}  // namespace tandem::pserver
