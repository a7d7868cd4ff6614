// Calls to all pservers of a running job, for commands that do something with all of them together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "deploy/cli/job/job_access.h"
#include "pserver/client/carrier/carrier.h"

namespace tandem::deploy {

struct JobCarrier {
  std::unique_ptr<PsCarrier> carrier;
  std::vector<std::string> addresses;  // of its servers, in their order

  JobCarrier(std::unique_ptr<PsCarrier> c, std::vector<std::string> a);
  ~JobCarrier();
  JobCarrier(JobCarrier&&) = default;
};
// When every server answers that was not drained; UNAVAILABLE naming the first that does not within
// access.timeout.
StatusOr<JobCarrier> ConnectPservers(const JobAccess& access);

}  // namespace tandem::deploy
