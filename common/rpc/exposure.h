// What may be sent to whom without TLS.
#pragma once

#include "common/base/status.h"
#include "common/rpc/endpoint.h"
#include "common/rpc/tls_files.h"

namespace tandem::rpc {

// For clients, before they send anything: PERMISSION_DENIED where gradients, parameters and proofs
// would cross a network in the clear. Not so to loopback addresses, with TLS, or where that is
// allowed. To a Unix-domain socket as CheckOwnSocket says (common/base/own_files.h).
Status CheckSendsInTheClear(const Endpoint& server, const TlsFiles& tls,
                            bool insecure_allow_network);

}  // namespace tandem::rpc
