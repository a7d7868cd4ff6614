// The PEM files that a process uses for TLS, and checks of them.
#pragma once

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/rpc/credentials/identity.h"

namespace tandem::rpc {

// All empty: no TLS. Only `ca`: TLS, and the peer proves its identity. All three: both sides prove
// theirs.
struct TlsFiles {
  std::string cert, key, ca;
  bool enabled() const { return !cert.empty() || !key.empty() || !ca.empty(); }
  bool mutual() const { return !cert.empty() && !key.empty() && !ca.empty(); }
};

// Returns tls.crt, tls.key and ca.crt in a directory. These are the names of a Kubernetes secret of
// type tls; `tandem certs issue` writes them too.
TlsFiles TlsFilesIn(const std::string& dir);
// Chooses the files from flags: a directory, single files, or neither. INVALID_ARGUMENT: both are
// given.
StatusOr<TlsFiles> ChooseTlsFiles(const std::string& dir, const TlsFiles& files);

// Returns the file's bytes. NOT_FOUND: no such file. INVALID_ARGUMENT: it is not PEM.
StatusOr<std::string> ReadPem(const std::string& path);

// Reads the files as a connection does and reports the errors that would make every connection
// fail. Returns the identity in `cert`, if it has one. Without TLS it checks nothing.
// NOT_FOUND: a file is missing. INVALID_ARGUMENT: no certificate, a key of another certificate, ...
// PERMISSION_DENIED: other users can read the key, or another user owns or can write a file.
// UNAUTHENTICATED: a certificate has expired or is not valid yet.
StatusOr<std::optional<PeerIdentity>> CheckTlsFiles(const TlsFiles& files);
// Like CheckTlsFiles, but requires a certificate for `role` and `job` ("": any job). Call it before
// roles are checked, on both sides.
// PERMISSION_DENIED: the certificate is for another role or job, which the message names.
StatusOr<PeerIdentity> RequireIdentity(const TlsFiles& files, PeerRole role,
                                       const std::string& job);

}  // namespace tandem::rpc
