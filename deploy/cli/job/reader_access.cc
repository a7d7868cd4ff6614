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

std::vector<std::string> ReaderAddresses(const JobAccess& access) {
  std::vector<std::string> servers;
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
