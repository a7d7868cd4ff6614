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
  std::string cert, key;  // certificate and private key in PEM format
};

// Makes a certificate authority, which can sign certificates of processes but not of authorities.
StatusOr<CertifiedKey> MakeAuthority(const std::string& name, int days);

struct LeafRequest {
  PeerIdentity identity;
  // DNS names and IP addresses at which clients reach the process. Only a pserver needs them.
  std::vector<std::string> hosts;
  int days = 30;
  int64_t issued = 0;  // time of issue in seconds since 1970; 0: now
};
// Returns a new key and its certificate. The certificate is valid from five minutes before the time
// of issue, because clocks differ. It expires at the latest when the authority expires.
// INVALID_ARGUMENT: wrong job or host name, or `authority` is no authority or has expired.
StatusOr<CertifiedKey> IssueCertificate(const CertifiedKey& authority, const LeafRequest& request);

// The fields of a certificate that Tandem uses.
struct CertificateFacts {
  std::string subject, issuer;  // names of the certificate's subject and issuer, each in one line
  std::vector<std::string> uris, hosts;  // subject alternative names of the certificate
  // Identity of the process; set if the only URI is a Tandem identity.
  std::optional<PeerIdentity> identity;
  int64_t not_before = 0, not_after = 0;  // validity period in seconds since 1970
  bool authority = false;
  std::string sha256;  // SHA-256 of the whole certificate in hex
};
// Reads the first certificate of a PEM text. INVALID_ARGUMENT: the text has no certificate.
StatusOr<CertificateFacts> ReadCertificate(const std::string& pem);
// Returns seconds since 1970 as text, such as "2026-11-21 19:30 UTC".
std::string DateText(int64_t seconds);
// Checks that the certificate is valid at `now`, in seconds since 1970. UNAUTHENTICATED: the
// certificate is not valid; the message has "expired on ..." or "is valid from ... on".
Status CheckValidity(const CertificateFacts& facts, int64_t now);
// Checks that the private key belongs to the certificate. INVALID_ARGUMENT: the key does not match.
Status CheckKey(const std::string& cert_pem, const std::string& key_pem);
// Checks that one of the certificates in `ca_pem` signed the certificate. UNAUTHENTICATED: no
// certificate in `ca_pem` signed it; the message names the issuer.
Status CheckIssuer(const std::string& cert_pem, const std::string& ca_pem);

// Returns the wall-clock time in seconds since 1970. Certificates are checked against this time.
int64_t WallSeconds();

// Writes tls.key, ca.crt and tls.crt into `dir`, which is created with mode 0700. Each file is
// replaced atomically; only its owner can read the key. Running programs load the new files.
Status WriteTlsDir(const std::string& dir, const CertifiedKey& leaf, const std::string& ca_pem);
// Writes ca.crt and ca.key into `dir`. ALREADY_EXISTS: one of the files exists.
Status WriteAuthority(const std::string& dir, const CertifiedKey& authority);
StatusOr<CertifiedKey> ReadAuthority(const std::string& dir);

}  // namespace tandem::rpc
