#include "deploy/cli/job/job_carrier.h"

#include <utility>

#include "proto/pserver.pb.h"
#include "pserver/client/carrier/grpc_carrier.h"

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
  options.insecure_allow_network = access.insecure_allow_network;
  options.start_timeout = access.timeout;
  options.transport = PsTransport::kGrpc;
  options.wait_for_servers = access.drained.empty();
  std::vector<std::string> addresses;
  for (const tandem::Endpoint& e : access.pservers) addresses.push_back(ToString(e));
  for (size_t i = 0; i < addresses.size() && !options.wait_for_servers; ++i) {
    StatusReply reply;
    const Status answer = ServerAccess(access, i).GetStatus(&reply);
    if (!IsGone(access, i, answer)) TD_RETURN_IF_ERROR(answer);
  }
  TD_ASSIGN_OR_RETURN(auto carrier, GrpcCarrier::Connect(addresses, options));
  return JobCarrier(std::move(carrier), std::move(addresses));
}

}  // namespace tandem::deploy
