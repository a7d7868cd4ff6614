// Certificates for tests: a certificate authority in memory, and directories with certificates that
// it issued.
#pragma once

#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/rpc/credentials/certificates.h"
#include "common/rpc/credentials/tls_files.h"

namespace tandem {

class TestAuthority {
 public:
  // Creates an authority with the name `name`. Issue writes certificates into subdirectories of
  // `dir`.
  TestAuthority(std::string dir, const std::string& name)
      : dir_(std::move(dir)), authority_(*rpc::MakeAuthority(name, 30)) {}

  // Issues a certificate and writes it into the directory `dir`/`folder`. Overwrites an existing
  // certificate.
  rpc::TlsFiles Issue(const std::string& folder, const rpc::LeafRequest& request) const {
    const StatusOr<rpc::CertifiedKey> leaf = rpc::IssueCertificate(authority_, request);
    CHECK(leaf.ok()) << leaf.status();
    const std::string path = dir_ + "/" + folder;
    const Status written = rpc::WriteTlsDir(path, *leaf, authority_.cert);
    CHECK(written.ok()) << written;
    return rpc::TlsFilesIn(path);
  }
  rpc::TlsFiles Issue(const std::string& job, rpc::PeerRole role) const {
    return Issue(job + "-" + rpc::RoleName(role),
                 {{job, role}, {"127.0.0.1", "localhost"}, /*days=*/30});
  }
  // Issues a certificate that expired ten days ago, for tests of the error message.
  rpc::TlsFiles IssueExpired(const std::string& folder, const std::string& job,
                             rpc::PeerRole role) const {
    return Issue(folder, {{job, role}, {"127.0.0.1"}, 30, rpc::WallSeconds() - 40 * 24 * 3600});
  }
  const rpc::CertifiedKey& authority() const { return authority_; }

 private:
  const std::string dir_;
  const rpc::CertifiedKey authority_;
};

}  // namespace tandem
