// The PEM files with which a process takes part in TLS, and what is wrong with them.
#pragma once

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/rpc/identity.h"

namespace tandem::rpc {

// All empty: no TLS. `ca` alone: TLS, the other side proves who it is. All three: both do.
struct TlsFiles {
  std::string cert, key, ca;
  bool enabled() const { return !cert.empty() || !key.empty() || !ca.empty(); }
  bool mutual() const { return !cert.empty() && !key.empty() && !ca.empty(); }
};

// tls.crt, tls.key and ca.crt in a folder: the names of a Kubernetes secret of type tls, which
// `tandem certs issue` writes too.
TlsFiles TlsFilesIn(const std::string& dir);
// What flags say: a folder, or the files one by one, or neither. INVALID_ARGUMENT for both.
StatusOr<TlsFiles> ChooseTlsFiles(const std::string& dir, const TlsFiles& files);

// The file's bytes; NOT_FOUND, or INVALID_ARGUMENT when it is not PEM.
StatusOr<std::string> ReadPem(const std::string& path);

// Reads the files as a connection will, and says what nobody could connect with: NOT_FOUND,
// INVALID_ARGUMENT (no certificate, a key of another certificate, ...), PERMISSION_DENIED (a key
// that others may read, a file of another user or that others may write), UNAUTHENTICATED (expired,
// or not valid yet). Nothing to say without TLS. Gives the identity in `cert`, where there is one.
StatusOr<std::optional<PeerIdentity>> CheckTlsFiles(const TlsFiles& files);
// The same, and the certificate must be there and be one for `role`; with a job ("": any) for that
// one. PERMISSION_DENIED naming what it is for. Needed by whoever checks, or is checked for, roles.
StatusOr<PeerIdentity> RequireIdentity(const TlsFiles& files, PeerRole role,
                                       const std::string& job);

}  // namespace tandem::rpc
