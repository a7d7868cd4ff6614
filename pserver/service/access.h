// Access rights to the calls of a server (common/rpc/pserver_call.h). The rights apply only if
// callers have certificates, because a caller without a certificate has no role.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/rpc/credentials/identity.h"
#include "common/rpc/pserver_call.h"

namespace tandem::pserver {

using rpc::PserverCall;

// Checks whether a caller may make `call` on a server of `job`. `uris`: the URIs in the caller's
// certificate. PERMISSION_DENIED: the caller may not make the call (the message names the caller
// and the roles that may).
Status CheckAccess(PserverCall call, const std::string& job,
                   std::span<const std::string_view> uris);

}  // namespace tandem::pserver
