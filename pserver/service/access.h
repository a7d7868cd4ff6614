// Access rights of the calls (common/rpc/pserver_call.h). Enforced if callers have certificates;
// without TLS there are no roles.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/rpc/credentials/identity.h"
#include "common/rpc/pserver_call.h"

namespace tandem::pserver {

using rpc::PserverCall;

// OK if a caller with these URIs in its certificate may make the call on a server of `job`.
// PERMISSION_DENIED: it may not (the message names the caller and the roles of the call).
Status CheckAccess(PserverCall call, const std::string& job,
                   std::span<const std::string_view> uris);

}  // namespace tandem::pserver
