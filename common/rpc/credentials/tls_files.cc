#include "common/rpc/credentials/tls_files.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "common/os/files.h"
#include "common/os/own_files.h"
#include "common/rpc/credentials/certificates.h"

namespace tandem::rpc {
namespace {

constexpr uint64_t kPemBytesMax = 16 << 20;

// Returns the content of a PEM file. `read` is the result of reading the file `path`.
StatusOr<std::string> AsPem(const std::string& path, StatusOr<std::string> read) {
  if (read.status().code() == StatusCode::kNotFound) {
    return NotFound("cannot open TLS file %s [TD6015]", path);
  }
  if (!read.ok()) return Annotate(read.status(), "TLS file");
  if (!absl::StrContains(*read, "-----BEGIN ")) {
    return InvalidArgument("TLS file %s is not in PEM format (it has no \"-----BEGIN\") [TD6015]",
                           path);
  }
  return read;
}

// Reads a PEM file after the checks of `rule`. With the file, this process verifies its peers or
// proves its own identity.
StatusOr<std::string> ReadOwnPem(const std::string& path, OwnRule rule) {
  return AsPem(path, ReadOwnFile(path, kPemBytesMax, rule));
}

}  // namespace

TlsFiles TlsFilesIn(const std::string& dir) {
  return {dir + "/tls.crt", dir + "/tls.key", dir + "/ca.crt"};
}

StatusOr<TlsFiles> ChooseTlsFiles(const std::string& dir, const TlsFiles& files) {
  if (dir.empty()) return files;
  if (files.enabled()) {
    return InvalidArgument(
        "tls_dir is set together with tls_cert, tls_key or tls_ca [TD1005]; hint: set only "
        "tls_dir");
  }
  const TlsFiles chosen = TlsFilesIn(dir);
  std::error_code error;
  if (std::filesystem::is_directory(dir, error) && !std::filesystem::exists(chosen.ca, error)) {
    // A typical error of a user is to name the directory of the job, which tandemrun expects,
    // instead of the directory of one role.
    return NotFound(
        "directory %s (tls_dir) has no ca.crt [TD6015]; hint: name a directory DIR/JOB/ROLE that "
        "tandem certs issue wrote",
        dir);
  }
  return chosen;
}

StatusOr<std::string> ReadPem(const std::string& path) {
  return AsPem(path, ReadSmallFile(path, kPemBytesMax));
}

StatusOr<std::optional<PeerIdentity>> CheckTlsFiles(const TlsFiles& files) {
  if (files.cert.empty() != files.key.empty()) {
    return InvalidArgument("TLS: only one of tls_cert and tls_key is set [TD1005]; hint: set both");
  }
  if (!files.ca.empty()) {
    TD_ASSIGN_OR_RETURN(const std::string ca, ReadOwnPem(files.ca, OwnRule::kGroup));
    TD_RETURN_IF_ERROR(Annotate(ReadCertificate(ca).status(), files.ca));
  }
  if (files.cert.empty()) return std::optional<PeerIdentity>();
  TD_ASSIGN_OR_RETURN(const std::string cert, ReadOwnPem(files.cert, OwnRule::kGroup));
  TD_ASSIGN_OR_RETURN(const std::string key, ReadOwnPem(files.key, OwnRule::kSecret));
  const auto facts = ReadCertificate(cert);
  if (!facts.ok()) return Annotate(facts.status(), files.cert);
  TD_RETURN_IF_ERROR(Annotate(CheckKey(cert, key), files.cert + " and " + files.key));
  TD_RETURN_IF_ERROR(Annotate(CheckValidity(*facts, WallSeconds()), files.cert));
  return facts->identity;
}

StatusOr<PeerIdentity> RequireIdentity(const TlsFiles& files, PeerRole role,
                                       const std::string& job) {
  TD_ASSIGN_OR_RETURN(const std::optional<PeerIdentity> identity, CheckTlsFiles(files));
  const std::string name = job.empty() ? "JOB" : job;
  const std::string hint = absl::StrFormat("; hint: run tandem certs issue DIR --job=%s --role=%s",
                                           name, RoleName(role));
  if (!identity) {
    return PermissionDenied("certificate %s names no role, expected %s [TD6010]%s", files.cert,
                            ToUri({name, role}), hint);
  }
  if (identity->role != role || (!job.empty() && identity->job != job)) {
    return PermissionDenied(
        "certificate %s is for role %s of job \"%s\", but this process is a %s%s [TD6010]%s",
        files.cert, RoleName(identity->role), identity->job, RoleName(role),
        job.empty() ? "" : " of job \"" + job + "\"", hint);
  }
  return *identity;
}

}  // namespace tandem::rpc
