// Certificates (X.509) made, read and judged with OpenSSL: an authority of one's own, and leaves
// with a role in a job (identity.h). EC keys on P-256, signed with SHA-256; keys as PKCS #8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/identity.h"

namespace tandem::rpc {

struct CertifiedKey {
  std::string cert, key;  // PEM
};

// An authority that may sign leaves and no further authorities.
StatusOr<CertifiedKey> MakeAuthority(const std::string& name, int days);

struct LeafRequest {
  PeerIdentity identity;
  // DNS names and IP addresses at which clients reach it; needed by pservers alone.
  std::vector<std::string> hosts;
  int days = 30;
  int64_t issued = 0;  // seconds since 1970; 0: now
};
// A key and its certificate, valid from five minutes before (clocks differ) and never longer than
// the authority's. INVALID_ARGUMENT: a bad job or host, or an authority that is none or has
// expired.
StatusOr<CertifiedKey> IssueCertificate(const CertifiedKey& authority, const LeafRequest& request);

// What stands in a certificate.
struct CertificateFacts {
  std::string subject, issuer;            // one line each
  std::vector<std::string> uris, hosts;   // subject alternative names
  std::optional<PeerIdentity> identity;   // when the only URI is one of ours
  int64_t not_before = 0, not_after = 0;  // seconds since 1970
  bool authority = false;
  std::string sha256;  // of the whole certificate, hex
};
// The first certificate of a PEM text; INVALID_ARGUMENT when there is none.
StatusOr<CertificateFacts> ReadCertificate(const std::string& pem);
// "2026-11-21 19:30 UTC"
std::string DateText(int64_t seconds);
// OK, or UNAUTHENTICATED "expired on ..." or "is valid from ... on": `now` in seconds since 1970.
Status CheckValidity(const CertificateFacts& facts, int64_t now);
// OK when the key is the certificate's; INVALID_ARGUMENT otherwise.
Status CheckKey(const std::string& cert_pem, const std::string& key_pem);
// OK when one of the certificates in `ca_pem` signed it; UNAUTHENTICATED naming its issuer.
Status CheckIssuer(const std::string& cert_pem, const std::string& ca_pem);

// Seconds since 1970, by the clock against which certificates are judged.
int64_t WallSeconds();

// Writes tls.key, ca.crt and tls.crt into `dir` (made with mode 0700), each in one piece, the key
// readable by its owner alone. Programs that use the folder take them up.
Status WriteTlsFolder(const std::string& dir, const CertifiedKey& leaf, const std::string& ca_pem);
// ca.crt and ca.key in `dir`; ALREADY_EXISTS when one is there.
Status WriteAuthority(const std::string& dir, const CertifiedKey& authority);
StatusOr<CertifiedKey> ReadAuthority(const std::string& dir);

}  // namespace tandem::rpc
