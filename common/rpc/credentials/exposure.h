// Checks which servers a client may send data to without TLS.
#pragma once

#include "common/base/endpoint.h"
#include "common/base/status.h"
#include "common/rpc/credentials/tls_files.h"

namespace tandem::rpc {

// Call before a client sends anything. PERMISSION_DENIED: gradients, parameters and proofs would
// cross a network unencrypted.
// Loopback addresses, TLS, and an explicit permission are OK. A Unix-domain socket is checked by
// CheckOwnSocket (common/os/own_files.h).
Status CheckSendsInTheClear(const Endpoint& server, const TlsFiles& tls,
                            bool insecure_allow_network);

}  // namespace tandem::rpc
