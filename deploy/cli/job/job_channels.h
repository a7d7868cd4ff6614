// Connections to all pservers of a running job, for commands that call all of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "deploy/cli/job/job_access.h"
#include "pserver/client/carrier/ps_channel.h"

namespace tandem::deploy {

struct JobChannels {
  std::unique_ptr<ps::PsChannel> carrier;
  std::vector<std::string> addresses;  // addresses of the servers, in the order of their numbers

  JobChannels(std::unique_ptr<ps::PsChannel> c, std::vector<std::string> a);
  ~JobChannels();
  JobChannels(JobChannels&&) = default;
};
// Connects to all pservers that are not drained. Returns after each of them has replied.
// UNAVAILABLE: a server does not reply within access.timeout; the message names the first such
// server.
StatusOr<JobChannels> ConnectPservers(const JobAccess& access);

}  // namespace tandem::deploy
