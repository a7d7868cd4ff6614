// Finds out why a connection fails. gRPC reports "failed to connect" or "Socket closed" for every
// cause. This code connects again with OpenSSL, and reports the cause and a remedy.
#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/base/endpoint.h"
#include "common/base/status.h"
#include "common/rpc/credentials/tls_files.h"

namespace tandem::rpc {

// Connects to `server` and checks TLS and both identities. Blocks for about two seconds at most.
// With TLS each of the three steps may take up to `patience`, because a server under a flood delays
// its callers. OK: a connection with these files works now. UNAVAILABLE: no server replies, or the
// check ran out of time; a retry can help. All other errors are permanent until the configuration
// changes. UNAUTHENTICATED: this side or the server rejects a certificate. PERMISSION_DENIED: the
// server's identity is not `server_uri` ("": any server). FAILED_PRECONDITION: only one of client
// and server uses TLS. Other codes: those of CheckTlsFiles.
Status ProbeConnection(const Endpoint& server, const TlsFiles& tls, const std::string& server_uri,
                       Duration patience = {});

}  // namespace tandem::rpc
