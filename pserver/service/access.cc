#include "pserver/service/access.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace tandem::pserver {

Status CheckAccess(PserverCall call, const std::string& job,
                   std::span<const std::string_view> uris) {
  const rpc::PserverCallRow& row = rpc::RowOf(call);
  if (uris.size() != 1) {
    return PermissionDenied(
        "%s: the certificate of the caller has %d URIs, expected one URI that names role and job "
        "[TD6009]; hint: run tandem certs issue DIR --job=%s --role=%s",
        row.name, uris.size(), job, rpc::RoleName(row.roles.back()));
  }
  const StatusOr<rpc::PeerIdentity> caller = rpc::ParseIdentity(uris[0]);
  if (!caller.ok()) {
    return PermissionDenied("%s: the certificate of the caller names no role: %s [TD6009]",
                            row.name, std::string(caller.status().message()));
  }
  if (caller->job != job) {
    return PermissionDenied(
        "%s: the caller is %s of job \"%s\", but this server serves job \"%s\" [TD6009]; hint: use "
        "another address, or run tandem certs issue DIR --job=%s --role=%s",
        row.name, rpc::RoleName(caller->role), caller->job, job, job,
        rpc::RoleName(row.roles.back()));
  }
  if (std::find(row.roles.begin(), row.roles.end(), caller->role) != row.roles.end()) {
    return OkStatus();
  }
  const std::string needed = absl::StrJoin(
      row.roles, " or ", [](std::string* out, rpc::PeerRole role) { *out += rpc::RoleName(role); });
  return PermissionDenied(
      "%s: the caller has role %s of job \"%s\", but the call needs role %s [TD6009]; hint: run "
      "tandem certs issue DIR --job=%s --role=%s",
      row.name, rpc::RoleName(caller->role), job, needed, job, rpc::RoleName(row.roles.back()));
}

}  // namespace tandem::pserver
