// Access rights to the calls of a server (common/rpc/pserver_call.h). The rights apply if callers
// have certificates. Without TLS, callers have no roles.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/rpc/credentials/identity.h"
#include "common/rpc/pserver_call.h"

namespace tandem::pserver {

using rpc::PserverCall;

// Checks whether a caller may make the call on a server of `job`. `uris`: the URIs in its
// certificate. PERMISSION_DENIED: it may not (the message names the caller and the roles of the
// call).
Status CheckAccess(PserverCall call, const std::string& job,
                   std::span<const std::string_view> uris);

}  // namespace tandem::pserver
