// Checks to which servers a client may send data without TLS.
#pragma once

#include "common/base/endpoint.h"
#include "common/base/status.h"
#include "common/rpc/credentials/tls_files.h"

namespace tandem::rpc {

// Checks whether data to `server` are protected. Call this function before a client sends anything.
// PERMISSION_DENIED: gradients, parameters and proofs would cross a network unencrypted. OK for a
// loopback address, with TLS, or if `insecure_allow_network` is true. A Unix-domain socket needs
// CheckOwnSocket instead (common/os/own_files.h).
Status CheckSendsInTheClear(const Endpoint& server, const TlsFiles& tls,
                            bool insecure_allow_network);

}  // namespace tandem::rpc
