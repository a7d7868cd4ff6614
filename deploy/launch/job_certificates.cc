#include "deploy/launch/job_certificates.h"

#include <array>
#include <filesystem>

#include "common/base/require.h"
#include "common/os/own_files.h"
#include "common/rpc/credentials/certificates.h"
#include "common/rpc/credentials/tls_files.h"

namespace tandem::deploy {
namespace {

constexpr int kDays = 30;
constexpr std::array kRoles = {rpc::PeerRole::kPserver, rpc::PeerRole::kTrainer,
                               rpc::PeerRole::kReader, rpc::PeerRole::kAdmin};

}  // namespace

StatusOr<std::vector<RoleCertificate>> MakeJobCertificates(const std::string& job,
                                                           const std::vector<std::string>& hosts) {
  TD_REQUIRE(!job.empty());
  TD_ASSIGN_OR_RETURN(const rpc::CertifiedKey authority,
                      rpc::MakeAuthority("only this run", kDays));
  std::vector<RoleCertificate> made;
  for (const rpc::PeerRole role : kRoles) {
    if (role == rpc::PeerRole::kPserver && hosts.empty()) continue;
    rpc::LeafRequest request{{job, role}, {}, kDays};
    if (role == rpc::PeerRole::kPserver) request.hosts = hosts;
    TD_ASSIGN_OR_RETURN(const rpc::CertifiedKey leaf, rpc::IssueCertificate(authority, request));
    made.push_back({rpc::RoleName(role), authority.cert, leaf.cert, leaf.key});
  }
  return made;
}

Status WriteJobCertificates(const std::string& dir,
                            const std::vector<RoleCertificate>& certificates,
                            HeldSecrets& secrets) {
  TD_REQUIRE(!dir.empty());
  std::error_code error;
  std::filesystem::remove_all(dir, error);
  secrets.AddDir(dir);
  TD_RETURN_IF_ERROR(MakeOwnDir(dir, OwnRule::kUser).status());
  for (const RoleCertificate& certificate : certificates) {
    bool known = false;
    for (const rpc::PeerRole role : kRoles) known = known || certificate.role == RoleName(role);
    if (!known) return InvalidArgument("there is no role \"%s\"", certificate.role);
    const std::string of_role = dir + "/" + certificate.role;
    const rpc::TlsFiles files = rpc::TlsFilesIn(of_role);
    TD_RETURN_IF_ERROR(MakeOwnDir(of_role, OwnRule::kUser).status());
    TD_RETURN_IF_ERROR(secrets.Hold(files.key, certificate.key));
    TD_RETURN_IF_ERROR(WriteOwnFile(files.ca, certificate.authority));
    TD_RETURN_IF_ERROR(WriteOwnFile(files.cert, certificate.cert));
  }
  return OkStatus();
}

}  // namespace tandem::deploy
