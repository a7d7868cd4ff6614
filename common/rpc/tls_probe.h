// Why a connection does not come about. gRPC says "failed to connect" or "Socket closed" of every
// cause; this dials once more with OpenSSL, sees what happens, and says what to do.
#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/rpc/endpoint.h"
#include "common/rpc/tls_files.h"

namespace tandem::rpc {

// Blocks for at most about two seconds; with TLS for `patience` at each of three steps where that
// is more, because a server under a flood lets callers wait. OK: a connection with these files
// works (again). UNAVAILABLE: nobody is there, or not long enough to tell; worth another try.
// Anything else stays wrong until somebody changes something: UNAUTHENTICATED (a certificate is not
// accepted, by us or by the server), PERMISSION_DENIED (the server is not `server_uri`; "":
// anybody), FAILED_PRECONDITION (one side speaks TLS and the other does not), or an error of
// CheckTlsFiles.
Status ProbeConnection(const Endpoint& server, const TlsFiles& tls, const std::string& server_uri,
                       Duration patience = {});

}  // namespace tandem::rpc
