// Calls to all pservers of a running job, for commands that use all of them together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "deploy/cli/job/job_access.h"
#include "pserver/client/carrier/ps_channel.h"

namespace tandem::deploy {

struct JobChannels {
  std::unique_ptr<ps::PsChannel> carrier;
  std::vector<std::string> addresses;  // addresses of its servers, in order

  JobChannels(std::unique_ptr<ps::PsChannel> c, std::vector<std::string> a);
  ~JobChannels();
  JobChannels(JobChannels&&) = default;
};
// Connects once every server replies that is not drained. UNAVAILABLE: a server does not reply
// within access.timeout; the message names the first.
StatusOr<JobChannels> ConnectPservers(const JobAccess& access);

}  // namespace tandem::deploy
