#include "common/rpc/credentials/identity.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/base/nearest.h"

namespace tandem::rpc {

const char* RoleName(PeerRole role) {
  switch (role) {
    case PeerRole::kTrainer:
      return "trainer";
    case PeerRole::kPserver:
      return "pserver";
    case PeerRole::kObserver:
      return "observer";
    case PeerRole::kReader:
      return "reader";
    case PeerRole::kAdmin:
      return "admin";
  }
  return "";
}

StatusOr<PeerRole> ParsePeerRole(std::string_view text) {
  std::vector<std::string> names;
  for (const PeerRole role : kPeerRoles) {
    if (text == RoleName(role)) return role;
    names.push_back(RoleName(role));
  }
  return InvalidArgument(
      "role \"%s\": expected trainer, pserver, observer, reader or admin [TD1006]%s",
      std::string(text), OrDidYouMean(text, names));
}

Status CheckJobName(std::string_view job) {
  const bool good = !job.empty() && job.size() <= 64 && job != "." && job != ".." &&
                    std::all_of(job.begin(), job.end(), [](unsigned char c) {
                      return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
                    });
  if (good) return OkStatus();
  return InvalidArgument(
      "job \"%s\": expected 1 to 64 letters, digits, dots, \"_\" and \"-\" [TD1011]",
      std::string(job));
}

std::string ToUri(const PeerIdentity& identity) {
  return "spiffe://tandem/job/" + identity.job + "/role/" + RoleName(identity.role);
}

StatusOr<PeerIdentity> ParseIdentity(std::string_view uri) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(uri), '/');
  if (parts.size() == 7 && parts[0] == "spiffe:" && parts[1].empty() && parts[2] == "tandem" &&
      parts[3] == "job" && parts[5] == "role" && CheckJobName(parts[4]).ok()) {
    TD_ASSIGN_OR_RETURN(const PeerRole role, ParsePeerRole(parts[6]));
    return PeerIdentity{parts[4], role};
  }
  return InvalidArgument(
      "\"%s\" is not an identity, expected spiffe://tandem/job/NAME/role/ROLE [TD6010]",
      std::string(uri));
}

}  // namespace tandem::rpc
