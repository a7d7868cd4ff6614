// Calls to all pservers of a running job, for commands that do something with all of them together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "deploy/cli/job/job_access.h"
#include "pserver/client/carrier/ps_channel.h"

namespace tandem::deploy {

struct JobChannels {
  std::unique_ptr<PsChannel> carrier;
  std::vector<std::string> addresses;  // of its servers, in their order

  JobChannels(std::unique_ptr<PsChannel> c, std::vector<std::string> a);
  ~JobChannels();
  JobChannels(JobChannels&&) = default;
};
// When every server answers that was not drained; UNAVAILABLE naming the first that does not within
// access.timeout.
StatusOr<JobChannels> ConnectPservers(const JobAccess& access);

}  // namespace tandem::deploy
