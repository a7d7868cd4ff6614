#include "common/rpc/tls_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/rpc/certificates.h"

namespace tandem {
namespace {

Status CheckPrivate(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return NotFound("key %s: %s", path, ErrnoText(errno));
  // The group may read a mounted secret (Kubernetes' fsGroup); nobody else.
  if ((info.st_mode & 027) == 0) return OkStatus();
  return PermissionDenied(
      "key %s may be read or changed by others (mode %o) [TD6012]; run chmod 600 %s", path,
      static_cast<unsigned>(info.st_mode & 0777), path);
}

}  // namespace

TlsFiles TlsFilesIn(const std::string& dir) {
  return {dir + "/tls.crt", dir + "/tls.key", dir + "/ca.crt"};
}

StatusOr<TlsFiles> ChooseTlsFiles(const std::string& dir, const TlsFiles& files) {
  if (dir.empty()) return files;
  if (files.enabled()) {
    return InvalidArgument(
        "tls_dir names tls.crt, tls.key and ca.crt of a folder: give it, or "
        "tls_cert, tls_key and tls_ca, but not both");
  }
  const TlsFiles chosen = TlsFilesIn(dir);
  std::error_code error;
  if (std::filesystem::is_directory(dir, error) && !std::filesystem::exists(chosen.ca, error)) {
    // Often it is the folder of a job, which tandemrun takes, with those of its roles in it.
    return NotFound(
        "tls_dir %s has no ca.crt [TD6015]; hint: the folder of one role, which tandem certs issue "
        "writes: DIR/JOB/ROLE",
        dir);
  }
  return chosen;
}

StatusOr<std::string> ReadPem(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("TLS file %s cannot be opened [TD6015]", path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.find("-----BEGIN ") == std::string::npos) {
    return InvalidArgument("TLS file %s is not PEM (no \"-----BEGIN\" in it) [TD6015]", path);
  }
  return text;
}

StatusOr<std::optional<PeerIdentity>> CheckTlsFiles(const TlsFiles& files) {
  if (files.cert.empty() != files.key.empty()) {
    return InvalidArgument("TLS: certificate and key come together (tls_cert, tls_key)");
  }
  if (!files.ca.empty()) {
    TD_ASSIGN_OR_RETURN(const std::string ca, ReadPem(files.ca));
    TD_RETURN_IF_ERROR(Annotate(ReadCertificate(ca).status(), files.ca));
  }
  if (files.cert.empty()) return std::optional<PeerIdentity>();
  TD_ASSIGN_OR_RETURN(const std::string cert, ReadPem(files.cert));
  TD_RETURN_IF_ERROR(CheckPrivate(files.key));
  TD_ASSIGN_OR_RETURN(const std::string key, ReadPem(files.key));
  const auto facts = ReadCertificate(cert);
  if (!facts.ok()) return Annotate(facts.status(), files.cert);
  TD_RETURN_IF_ERROR(Annotate(CheckKey(cert, key), files.cert + " and " + files.key));
  TD_RETURN_IF_ERROR(Annotate(CheckValidity(*facts, WallSeconds()), "certificate " + files.cert));
  return facts->identity;
}

StatusOr<PeerIdentity> RequireIdentity(const TlsFiles& files, PeerRole role,
                                       const std::string& job) {
  TD_ASSIGN_OR_RETURN(const std::optional<PeerIdentity> identity, CheckTlsFiles(files));
  const std::string name = job.empty() ? "JOB" : job;
  const std::string hint =
      absl::StrFormat("; hint: tandem certs issue DIR --job=%s --role=%s", name, RoleName(role));
  if (!identity) {
    return PermissionDenied("certificate %s names no role in a job (%s) [TD6010]%s", files.cert,
                            ToUri({name, role}), hint);
  }
  if (identity->role != role || (!job.empty() && identity->job != job)) {
    return PermissionDenied(
        "certificate %s is for role %s of job \"%s\", but this is a %s%s [TD6010]%s", files.cert,
        RoleName(identity->role), identity->job, RoleName(role),
        job.empty() ? "" : " of job \"" + job + "\"", hint);
  }
  return *identity;
}

}  // namespace tandem
