#include "deploy/cli/job/reader_access.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace tandem::deploy {

ps::ReaderOptions ReaderOptionsOf(const JobAccess& access) {
  ps::ReaderOptions options;
  options.job = access.job;
  options.security = {.secret = access.secret,
                      .tls = access.tls,
                      .insecure_allow_network = access.insecure_allow_network};
  options.timeout = access.timeout;
  return options;
}

StatusOr<JobAccess> FindToRead(const ParsedArgs& args) {
  return FindPservers(args, {rpc::PeerRole::kReader, rpc::PeerRole::kAdmin});
}

FlagSpec ReplicaFlag() {
  return {"replica", "", "N",
          "read from replica N of each pserver (tandemrun --replicas), from 0, instead of the "
          "pservers"};
}

StatusOr<std::vector<std::string>> ReaderAddresses(const JobAccess& access,
                                                   const ParsedArgs& args) {
  std::vector<std::string> servers;
  if (args.Has("replica")) {
    TD_ASSIGN_OR_RETURN(const int number, args.GetInt("replica", 0, 0, 1 << 20));
    for (const ReplicaAddress& replica : access.replicas) {
      if (replica.number == number) servers.push_back(ToString(replica.endpoint));
    }
    if (!servers.empty()) return servers;
    return InvalidArgument(
        "--replica=%d: tandemrun started no replica %d of the pservers [TD1004]; hint: start the "
        "job with tandemrun --replicas=%d, or name the replicas with --pservers",
        number, number, number + 1);
  }
  for (size_t i = 0; i < access.pservers.size(); ++i) {
    // A drained pserver has no rows and variables, and may have ended.
    if (access.drained.contains(static_cast<int>(i))) continue;
    servers.push_back(ToString(access.pservers[i]));
  }
  return servers;
}

std::string FloatText(float value) {
  const std::string six = absl::StrFormat("%.6g", value);
  float parsed = 0;
  return absl::SimpleAtof(six, &parsed) && parsed == value ? six : absl::StrFormat("%.9g", value);
}

}  // namespace tandem::deploy
