#include "deploy/cli/job_carrier.h"

#include <utility>

#include "pserver/client/grpc_carrier.h"

namespace tandem::deploy {

JobCarrier::JobCarrier(std::unique_ptr<PsCarrier> c, std::vector<std::string> a)
    : carrier(std::move(c)), addresses(std::move(a)) {}

JobCarrier::~JobCarrier() {
  if (carrier != nullptr) carrier->Close();
}

StatusOr<JobCarrier> ConnectPservers(const JobAccess& access) {
  PsOptions options;
  options.job = access.job;
  options.secret = access.secret;
  options.tls = access.tls;
  options.start_timeout = access.timeout;
  options.transport = PsTransport::kGrpc;
  std::vector<std::string> addresses;
  for (const tandem::Endpoint& e : access.pservers) addresses.push_back(ToString(e));
  TD_ASSIGN_OR_RETURN(auto carrier, GrpcCarrier::Connect(addresses, options));
  return JobCarrier(std::move(carrier), std::move(addresses));
}

}  // namespace tandem::deploy
