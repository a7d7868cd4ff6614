// The PEM files that a process uses for TLS, and checks of them.
#pragma once

#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/rpc/credentials/identity.h"

namespace tandem::rpc {

// Paths of the PEM files. All empty: no TLS. Only `ca` set: TLS, and only the peer proves its
// identity. All set: TLS, and both sides prove their identities.
struct TlsFiles {
  std::string cert, key, ca;
  bool enabled() const { return !cert.empty() || !key.empty() || !ca.empty(); }
  bool mutual() const { return !cert.empty() && !key.empty() && !ca.empty(); }
};

// Returns the paths of tls.crt, tls.key and ca.crt in a directory. A Kubernetes secret of type tls
// has the same file names, and `tandem certs issue` writes them too.
TlsFiles TlsFilesIn(const std::string& dir);
// Chooses the files from flags, which name a directory, single files, or nothing. INVALID_ARGUMENT:
// the flags name both a directory and single files.
StatusOr<TlsFiles> ChooseTlsFiles(const std::string& dir, const TlsFiles& files);

// Returns the content of a PEM file. NOT_FOUND: no such file. INVALID_ARGUMENT: no PEM file.
StatusOr<std::string> ReadPem(const std::string& path);

// Reads the files as a connection does and reports the errors that would make every connection
// fail. Returns the identity in `cert`, or nullopt if `cert` is not set or has no identity. Without
// TLS the function checks nothing. NOT_FOUND: a file is missing. INVALID_ARGUMENT: only one of
// `cert` and `key` is set, a file has no certificate, or the key belongs to another certificate.
// PERMISSION_DENIED: other users can read the key, or another user owns or can write a file.
// UNAUTHENTICATED: a certificate has expired or is not yet valid.
StatusOr<std::optional<PeerIdentity>> CheckTlsFiles(const TlsFiles& files);
// Like CheckTlsFiles, but also requires that `cert` is a certificate for `role` and `job` ("": any
// job), and returns its identity. A pserver with mutual TLS calls this function before it serves
// callers. PERMISSION_DENIED: the certificate is for another role or job, which the message names.
StatusOr<PeerIdentity> RequireIdentity(const TlsFiles& files, PeerRole role,
                                       const std::string& job);

}  // namespace tandem::rpc
