// Makes, reads and checks X.509 certificates with OpenSSL: a private certificate authority, and
// leaf certificates with a role in a job (identity.h).
// Keys are EC keys on P-256 in PKCS #8 format; signatures use SHA-256.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/credentials/identity.h"

namespace tandem::rpc {

struct CertifiedKey {
  std::string cert, key;  // PEM
};

// Makes an authority that can sign leaf certificates but no further authorities.
StatusOr<CertifiedKey> MakeAuthority(const std::string& name, int days);

struct LeafRequest {
  PeerIdentity identity;
  // DNS names and IP addresses at which clients reach the process; required for pservers only.
  std::vector<std::string> hosts;
  int days = 30;
  int64_t issued = 0;  // seconds since 1970; 0: now
};
// Returns a new key and its certificate. The certificate is valid from five minutes ago, because
// clocks differ, and not longer than the authority's.
// INVALID_ARGUMENT: a bad job or host name, or an authority that is not one or has expired.
StatusOr<CertifiedKey> IssueCertificate(const CertifiedKey& authority, const LeafRequest& request);

// The contents of a certificate.
struct CertificateFacts {
  std::string subject, issuer;            // one line each
  std::vector<std::string> uris, hosts;   // subject alternative names
  std::optional<PeerIdentity> identity;   // set if the only URI is a Tandem identity
  int64_t not_before = 0, not_after = 0;  // seconds since 1970
  bool authority = false;
  std::string sha256;  // of the whole certificate, hex
};
// Reads the first certificate of a PEM text. INVALID_ARGUMENT: there is none.
StatusOr<CertificateFacts> ReadCertificate(const std::string& pem);
// "2026-11-21 19:30 UTC"
std::string DateText(int64_t seconds);
// Checks the validity period at `now`, in seconds since 1970. UNAUTHENTICATED: "expired on ..." or
// "is valid from ... on".
Status CheckValidity(const CertificateFacts& facts, int64_t now);
// Checks that the key belongs to the certificate. INVALID_ARGUMENT: it does not.
Status CheckKey(const std::string& cert_pem, const std::string& key_pem);
// Checks that one of the certificates in `ca_pem` signed the certificate. UNAUTHENTICATED (names
// the issuer): none did.
Status CheckIssuer(const std::string& cert_pem, const std::string& ca_pem);

// Seconds since 1970 on the clock that certificate checks use.
int64_t WallSeconds();

// Writes tls.key, ca.crt and tls.crt into `dir`, which is created with mode 0700. Each file is
// replaced atomically; only its owner can read the key. Programs that use the directory load the
// new files.
Status WriteTlsDir(const std::string& dir, const CertifiedKey& leaf, const std::string& ca_pem);
// Writes ca.crt and ca.key into `dir`. ALREADY_EXISTS: one of the files exists.
Status WriteAuthority(const std::string& dir, const CertifiedKey& authority);
StatusOr<CertifiedKey> ReadAuthority(const std::string& dir);

}  // namespace tandem::rpc
